import { create } from '@bufbuild/protobuf'
import { expect, test } from 'vitest'
import { ServiceSchema } from '../gen/fairlead/console/v1/resources_pb'
import { SyncMode } from '../gen/fairlead/delivery/v1/options_pb'
import { inParallel } from '../hub/parallel'
import { leversOf } from '../state/levers'
import { toCsv } from '../ui/exported'
import { kindNamed, manifest, type ResourceKind } from '../ui/resources'
import { amount, plain } from '../ui/text'
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
