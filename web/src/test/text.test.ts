import { create } from '@bufbuild/protobuf'
import { expect, test } from 'vitest'
import { type Project, ProjectSchema } from '../gen/fairlead/console/v1/project_service_pb'
import { ServiceSchema } from '../gen/fairlead/console/v1/resources_pb'
import { SyncMode } from '../gen/fairlead/delivery/v1/options_pb'
import { WindowAction, WindowDrift } from '../gen/fairlead/delivery/v1/windows_pb'
import { inParallel } from '../hub/parallel'
import { clock, shortTime } from '../live/ages'
import { read } from '../pages/apply/documents'
import { leversOf } from '../state/levers'
import { toCsv } from '../ui/exported'
import { isOpen, setPart } from '../ui/opened'
import { chosenIn, chosenText, pageIn, pageText } from '../ui/paging'
import { kindNamed, lengthOf, manifest, type ResourceKind } from '../ui/resources'
import { amount, plain } from '../ui/text'
import { localTime, localTimes, partsOf } from '../ui/times'
import { toYaml } from '../ui/yaml'

test('foreign text cannot turn, hide or forge what stands around it', () => {
  expect(plain('a\u202Eb\u0000c\u001b[31md\u2066')).toBe('a\\u{202e}b\\u{0}c\\u{1b}[31md\\u{2066}')
  expect(plain('two\nlines\tand a tab')).toBe('two\nlines\tand a tab')
})
test('a megabyte of text is cut, and the cut is said', () => {
  const text = plain('x'.repeat(1 << 20))
  expect(text.length).toBeLessThan(5000)
  expect(text).toContain('more characters')
})

test('YAML that a person copies means the same', () => {
  const value = {
    kind: 'Service',
    spec: {
      source: 'shop',
      ref: '1.10',
      on: true,
      empty: {},
      none: [],
      list: ['a', { b: 'c: d', e: 2 }, 'true', 'no', '# x', '- y', ''],
      values: 'image:\n  tag: v1\n',
      odd: 'a\n\n',
    },
  }
  expect(toYaml(value)).toBe(
    [
      'kind: Service',
      'spec:',
      '  source: shop',
      '  ref: "1.10"',
      '  "on": true',
      '  empty: {}',
      '  none: []',
      '  list:',
      '    - a',
      '    - b: "c: d"',
      '      e: 2',
      '    - "true"',
      '    - "no"',
      '    - "# x"',
      '    - "- y"',
      '    - ""',
      '  values: |',
      '    image:',
      '      tag: v1',
      '  odd: |+',
      '    a',
      '',
      '',
    ].join('\n'),
  )
})

test('no value breaks out of the YAML that a person copies', () => {
  const text = toYaml({ spec: { config: 'a\nb\u2028  catalog: true', next: 'a\u0085b', turned: 'x\u202ey' } })
  expect(text).toBe(
    'spec:\n  config: "a\\nb\\U00002028  catalog: true"\n  next: "a\\U00000085b"\n  turned: "x\\U0000202ey"\n',
  )
})

test('an exported table is no formula, and keeps its quotes', () =>
  expect(
    toCsv(
      ['name', 'why'],
      [
        { name: '=HYPERLINK("x")', why: 'a, b' },
        { name: 'web', why: 'two\nlines' },
      ],
    ),
  ).toBe('name,why\r\n"\'=HYPERLINK(""x"")","a, b"\r\nweb,"two\nlines"\r\n'))

test.each([
  ['=1+1', "'=1+1"],
  ['+1', "'+1"],
  ['-1', "'-1"],
  ['@SUM(A1)', "'@SUM(A1)"],
  ['  =1', "'  =1"],
  ['\uff1d1', "'\uff1d1"],
  ['\t=1', '"\t\'=1"'],
  ['x;=1', '"x;\'=1"'],
  ['two\n=1', '"two\n\'=1"'],
  ['a=1; b-c', '"a=1; b-c"'],
  ['9a1b-2', '9a1b-2'],
  ['', ''],
])('a cell of %j is exported as %s', (text, cell) =>
  expect(toCsv(['c'], [{ c: text }])).toBe(`c\r\n${cell}\r\n`),
)

test('many are done so many at once, and each has its outcome', async () => {
  let running = 0
  let most = 0
  const out = await inParallel([...Array(20).keys()], 6, async (n) => {
    most = Math.max(most, ++running)
    await Promise.resolve()
    running--
    return n * 2
  })
  expect(out).toEqual([...Array(20).keys()].map((n) => n * 2))
  expect(most).toBe(6)
})

test('levers say who pulled them and why', () => {
  const service = create(ServiceSchema, {
    spec: { sync: { mode: SyncMode.HOLD, pin: 'a'.repeat(40) } },
    levers: { mode: { author: 'user:ada', reason: 'looks odd' } },
  })
  expect(leversOf(service)).toBe('‖ held, pinned to aaaaaaa, user:ada: looks odd')
  expect(leversOf(create(ServiceSchema, {}))).toBe('')
})

test('YAML of a service is what files say, without levers, status and what the hub fills in', () => {
  const service = create(ServiceSchema, {
    metadata: { name: 'web', uid: 'u', etag: 'e' },
    spec: { source: 'shop', sync: { mode: SyncMode.HOLD } },
    levers: { mode: { reason: 'odd' }, spec: { source: 'shop' } },
    status: { stateMessage: 'x' },
  })
  expect(manifest(kindNamed('Service') as ResourceKind, service)).toBe(
    'apiVersion: fairlead.dev/v1\nkind: Service\nmetadata:\n  name: web\nspec:\n  source: shop\n',
  )
})

test('one of a thing is singular', () => {
  expect([
    amount(0, 'pod'),
    amount(1, 'pod'),
    amount(1n, 'pod'),
    amount(2000n, 'pod'),
    amount(undefined, 'pod'),
  ]).toEqual(['0 pods', '1 pod', '1 pod', `${(2000).toLocaleString()} pods`, '– pods'])
})

test('YAML of a resource has the words of files, not those of the API', () => {
  const project = create(ProjectSchema, {
    metadata: { name: 'shop' },
    spec: {
      windows: [
        {
          name: 'nights',
          action: WindowAction.DENY,
          schedule: '0 22 * * *',
          duration: { seconds: 28_800n },
          drift: WindowDrift.LEAVE,
        },
      ],
    },
  })
  const text = manifest(kindNamed('Project') as ResourceKind, project)
  expect(text).toBe(
    'apiVersion: fairlead.dev/v1\nkind: Project\nmetadata:\n  name: shop\nspec:\n  windows:\n    - name: nights\n      action: deny\n' +
      '      schedule: "0 22 * * *"\n      duration: 8h\n      drift: leave\n',
  )
  const { resources, problems } = read(text, '')
  expect(problems).toEqual([])
  expect(resources[0]?.resource.value).toEqual(project)
})

test.each([
  ['0s', '0s'],
  ['300s', '5m'],
  ['5400s', '1h30m'],
  ['90s', '1m30s'],
  ['0.250s', '0.25s'],
  ['3601.5s', '1h1.5s'],
  ['-5s', '-5s'],
])('a length of time %s is %s in a file', (json, text) => {
  expect(lengthOf(json)).toBe(text)
})

test.each([
  ['300s', 300n, 0],
  ['1h30m', 5400n, 0],
  ['1h0.3s', 3600n, 300_000_000],
  ['500ms', 0n, 500_000_000],
  ['1.5h', 5400n, 0],
  ['0.000000001s', 0n, 1],
  ['20us', 0n, 20_000],
  ['100s', 100n, 0],
])('a length of time %s in a file is read as `fairlead apply -f` does', (text, seconds, nanos) => {
  const windows = `- name: a\n      action: deny\n      duration: ${text}`
  const { resources, problems } = read(
    `apiVersion: fairlead.dev/v1\nkind: Project\nmetadata:\n  name: shop\nspec:\n  windows:\n    ${windows}\n`,
    '',
  )
  expect(problems).toEqual([])
  const project = resources[0]?.resource.value as Project
  expect(project.spec?.windows[0]?.duration).toMatchObject({ seconds, nanos })
})
test('what is no length of time is not taken for one', () => {
  const of = (text: string) =>
    read(
      `apiVersion: fairlead.dev/v1\nkind: Project\nmetadata:\n  name: a\nspec:\n  windows:\n    - duration: ${text}\n`,
      '',
    )
  for (const text of ['5', 'soon', '5 m', 's']) expect(of(text).problems).toHaveLength(1)
})

test('a service says nothing of the sync that a person asked for', () => {
  const of = (sync: object) =>
    manifest(
      kindNamed('Service') as ResourceKind,
      create(ServiceSchema, { metadata: { name: 'web' }, spec: { source: 'shop', sync } }),
    )
  expect(of({ requestTime: { seconds: 1n }, requestOnly: ['ConfigMap/a'] })).not.toContain('sync')
  expect(of({ requestTime: { seconds: 1n }, mode: SyncMode.DRY_RUN })).toMatch(
    / {2}sync:\n {4}mode: dry-run\n$/,
  )
})

test('times in sentences of the hub are those of the person', () => {
  const at = new Date('2026-11-24T14:02:11Z')
  expect(partsOf('held until 2026-11-24T14:02:11Z, or 2026-11-24 14:02:11 UTC.')).toEqual([
    'held until ',
    at,
    ', or ',
    at,
    '.',
  ])
  expect(partsOf('2026-99-99T14:02:11Z is none')).toEqual(['2026-99-99T14:02:11Z', ' is none'])
  expect(partsOf('v1.2 of 2026-11-24')).toEqual(['v1.2 of 2026-11-24'])
  expect(localTimes('until 2026-11-24T14:02:11.5Z')).toBe(`until ${localTime(new Date(at.getTime() + 500))}`)
  expect(partsOf('')).toEqual([])
  // The age that the hub wrote into its sentence stood still since.
  for (const age of ['59 s', '10 min', '47 h', '3 days'])
    expect(partsOf(`seen ${age} ago, at 2026-11-24T14:02:11Z; it was well 5 min ago`)).toEqual([
      'seen at ',
      at,
      '; it was well 5 min ago',
    ])
})

test('a page in the address is one of that list only', () => {
  const at = pageText('state = failed\nname', 3, 'eyJ.x_-')
  expect(pageIn(at, 'state = failed\nname')).toEqual({ number: 3, token: 'eyJ.x_-' })
  for (const [text, of] of [
    [at, 'state = failed\nname desc'],
    ['', ''],
    ['3', ''],
    ['0.1.x', ''],
    ['1.1.x', ''],
    ['-3.1.x', ''],
  ] as const)
    expect(pageIn(text, of)).toEqual({ number: 1, token: '' })
})

test('what is chosen stands in the address while that has an end', () => {
  expect(chosenIn('web,,db,web')).toEqual(['web', 'db'])
  expect(chosenText(['web', 'ConfigMap/shop/a'])).toBe('web,ConfigMap/shop/a')
  expect(chosenText([])).toBe('')
  expect(chosenText(Array.from({ length: 101 }, (_, i) => `web-${i}`))).toBeUndefined()
  const names = (n: number) => Array.from({ length: n }, (_, i) => `web-${i}`)
  expect(chosenIn(names(100).join(','))).toEqual(names(100))
  for (const n of [101, 100_000]) expect(chosenIn(names(n).join(','))).toEqual([])
  expect(chosenText(Array.from({ length: 100 }, (_, i) => `${i}${'x'.repeat(400)}`))).toBeUndefined()
})

test('parts that a person opens or shuts stand in the address, those that are so by themselves do not', () => {
  const before = new URLSearchParams('tab=history&open=change.1&shut=Deployment')
  expect(isOpen(before, 'change.1', false)).toBe(true)
  expect(isOpen(before, 'change.2', false)).toBe(false)
  expect(isOpen(before, 'Deployment', true)).toBe(false)
  expect(isOpen(before, 'ConfigMap', true)).toBe(true)

  const after = (name: string, byItself: boolean, open: boolean) => {
    const params = new URLSearchParams(before)
    setPart(params, name, byItself, open)
    return params
  }
  expect(String(after('change.1', false, false))).toBe('tab=history&shut=Deployment')
  expect(String(after('Deployment', true, true))).toBe('tab=history&open=change.1')
  expect(after('a&b=c, d', false, true).getAll('open')).toEqual(['change.1', 'a&b=c, d'])
  // What opens by itself later stays open for the person who had opened it.
  expect(isOpen(after('Pod', false, true), 'Pod', true)).toBe(true)

  const many = new URLSearchParams()
  for (let i = 0; i < 200; i++) setPart(many, `part ${i}`, false, true)
  expect(many.getAll('open')).toHaveLength(100)
})

test('a time of today is its clock, and one of another day has the day', () => {
  const now = new Date(2026, 10, 25, 14, 0, 0).getTime()
  expect(shortTime(new Date(2026, 10, 25, 0, 2, 11), now)).toBe('00:02:11')
  expect(shortTime(new Date(2026, 10, 24, 23, 59, 59), now)).toBe('2026-11-24 23:59')
  expect(clock(now - 1_000, now)).toBe('13:59:59')
  expect(clock(now - 86_400_000, now)).toBe('2026-11-24 14:00') // a page that was left open over night
})
