import { create, type MessageInitShape } from '@bufbuild/protobuf'
import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import { Code, ConnectError, createRouterTransport } from '@connectrpc/connect'
import { afterAll, describe, expect, test, vi } from 'vitest'
import { isNewer } from '../app/newer'
import { castOf, playTimes } from '../cluster/cast'
import { consequencesOf } from '../cluster/consequences'
import { eventsOfObjects } from '../cluster/events'
import type { Kind as ClusterKind } from '../cluster/kinds'
import { podsOfObject } from '../cluster/pods'
import { Refused } from '../cluster/request'
import { findingOf } from '../cluster/why'
import { AccessService, RoleService } from '../gen/fairlead/console/v1/access_service_pb'
import { ClusterService } from '../gen/fairlead/console/v1/cluster_service_pb'
import { ConfigSetSchema, ConfigUserSchema } from '../gen/fairlead/console/v1/config_set_service_pb'
import { PlannedAction, PlannedServiceSchema } from '../gen/fairlead/console/v1/global_service_service_pb'
import { GrantService } from '../gen/fairlead/console/v1/grant_service_pb'
import { LiveService } from '../gen/fairlead/console/v1/live_service_pb'
import { ClusterObjectSchema, ObjectService } from '../gen/fairlead/console/v1/object_service_pb'
import { ProjectSchema } from '../gen/fairlead/console/v1/project_service_pb'
import {
  ClusterStatusSchema,
  type ServiceLeversSchema,
  ServiceSchema,
} from '../gen/fairlead/console/v1/resources_pb'
import { RevisionService } from '../gen/fairlead/console/v1/revision_service_pb'
import { DeletePolicy, SyncMode } from '../gen/fairlead/delivery/v1/options_pb'
import { pageVersion, traceAddress } from '../hub/about'
import { failureAt } from '../hub/errors'
import { answerOf } from '../live/answers'
import { programOf } from '../pages/me/programs'
import { entriesOf, hasUsers, namesOf, rowsOf } from '../pages/resource/entries'
import { valuesOf } from '../pages/service/difference'
import { grouped, groupsOf } from '../pages/service/grouped'
import { keep, pull, verbs } from '../pages/services/verbs'
import { textOf } from '../pages/source/content'
import { connectionOf } from '../state/states'
import { undoAll, undoOf } from '../state/undo'
import { lossOf, lossOfPlan } from '../ui/deletion'
import { Held } from '../ui/held'
import { lossOfCluster, lossOfService } from '../ui/losses'
import { kindNamed, kinds, manifest, type ResourceKind } from '../ui/resources'
import { bytesOf, ofKind } from '../ui/text'
import { Tray } from '../ui/tray'

// Modules look at the address of the page when they are loaded.
vi.hoisted(() => vi.stubGlobal('window', { location: new URL('https://hub.example') }))
afterAll(() => vi.unstubAllGlobals())

test('a trace has the address that the hub gives, and nothing else comes into it', () => {
  const id = '0af7651916cd43dd8448eb211c80319c'
  expect(traceAddress('https://jaeger.example.com/trace/{trace}?q={trace}', id)).toBe(
    `https://jaeger.example.com/trace/${id}?q=${id}`,
  )
  expect(traceAddress('javascript:alert({trace})', id)).toBe('')
  expect(traceAddress('https://jaeger.example.com/trace/{trace}', '../../evil')).toBe('')
  expect(traceAddress('', id)).toBe('')
})

test('a page is of the version that its hub had first', () => {
  expect([pageVersion(''), pageVersion('v1'), pageVersion('v2')]).toEqual(['', 'v1', 'v1'])
})

test('what programs call themselves is said in words', () => {
  const mozilla = 'Mozilla/5.0 (X11; Linux x86_64)'
  const chrome = 'AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36'
  expect(programOf(`${mozilla} ${chrome}`)).toBe('Chrome on Linux')
  expect(programOf(`Mozilla/5.0 (Windows NT 10.0; Win64; x64) ${chrome} Edg/140.0.0.0`)).toBe(
    'Edge on Windows',
  )
  expect(programOf('Mozilla/5.0 (Android 15; Mobile; rv:140.0) Gecko/140.0 Firefox/140.0')).toBe(
    'Firefox on Android',
  )
  expect(
    programOf(
      'Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) Version/18.0 Mobile/15E148 Safari/604.1',
    ),
  ).toBe('Safari on iPhone')
  expect(programOf('fairlead/v1.2.3 (darwin)')).toBe('fairlead v1.2.3 on macOS')
  expect(programOf('curl/8.0')).toBe('curl/8.0')
  expect(programOf('')).toBe('not known')
})

const cast = (...lines: unknown[]) => lines.map((l) => `${JSON.stringify(l)}\n`).join('')

test('a recording is read as far as it is whole', () => {
  const text = cast(
    { version: 2, width: 100, height: 30 },
    [0.5, 'o', 'a'],
    [0.7, 'i', 'typed'],
    [1, 'r', '120x40'],
    [2, 'm', 'a mark'],
    [2.5, 'o', '\u001b[31mred'],
  )
  expect(castOf(`${text}[3, "o", "cut in the mid`)).toEqual({
    cols: 100,
    rows: 30,
    events: [
      { at: 500, text: 'a' },
      { at: 1000, cols: 120, rows: 40 },
      { at: 2500, text: '\u001b[31mred' },
    ],
  })
})

test('sizes that no terminal has are not taken', () => {
  const { cols, rows, events } = castOf(cast({ version: 2, width: 1e9, height: -1 }, [0, 'r', '0x99999999']))
  expect([cols, rows]).toEqual([500, 24])
  expect(events).toEqual([{ at: 0, cols: 80, rows: 500 }])
})

test('what is no recording says so', () => {
  expect(() => castOf('<html>')).toThrow('no header')
  expect(() => castOf(cast({ version: 1, stdout: [] }))).toThrow('no header')
})

test('long pauses are played short, and time never runs back', () => {
  const events = [0, 500, 60_500, 60_000, 61_000].map((at) => ({ at, text: 'x' }))
  expect(playTimes({ cols: 80, rows: 24, events }, 2000)).toEqual([0, 500, 2500, 2500, 3000])
  expect(playTimes({ cols: 80, rows: 24, events }, Number.POSITIVE_INFINITY)).toEqual([
    0, 500, 60_500, 60_500, 61_000,
  ])
})

test('a proxy without a route to a service is told from a service that refuses', () => {
  const missing = failureAt('gitcache', new ConnectError('HTTP 404', Code.Unimplemented))
  expect(missing.message).toContain('no route for /fairlead.gitcache.')
  const refused = failureAt('gitcache', new ConnectError('there is no source "shop"', Code.NotFound))
  expect(refused.message).toBe('there is no source "shop"')
})

test('a file that is no text is not drawn as one', () => {
  expect(textOf(new TextEncoder().encode('ключ: "ä"\n'))).toBe('ключ: "ä"\n')
  expect(textOf(new Uint8Array([0x50, 0x4b, 0, 4]))).toBeUndefined()
  expect(textOf(new Uint8Array([0xff, 0xfe, 0x41]))).toBeUndefined()
})

test('sizes are said in the unit that fits', () => {
  expect([0, 1023, 1024, 150 << 10, 5 << 20].map(bytesOf)).toEqual([
    '0 B',
    '1023 B',
    '1.0 KiB',
    '150 KiB',
    '5.0 MiB',
  ])
})

// A cluster that answers by path; what it does not have is not found.
const cluster = (answers: Record<string, unknown>) => async (path: string) => {
  const found = answers[path] ?? answers[path.split('?')[0] ?? '']
  if (found === undefined) throw new Refused(`${path} not found`, Code.NotFound, 404)
  return new Response(typeof found === 'string' ? found : JSON.stringify(found))
}

test('the pods of a CronJob are those of its newest jobs, and of no other one', async () => {
  const job = (name: string, owner: string, at: string) => ({
    metadata: {
      name,
      creationTimestamp: at,
      ownerReferences: [{ kind: 'CronJob', name: owner, controller: true }],
    },
    spec: { selector: { matchLabels: { job: name } } },
  })
  const asked: string[] = []
  const answers = cluster({
    '/apis/batch/v1/namespaces/shop/cronjobs/backup': { metadata: { name: 'backup' }, spec: {} },
    '/apis/batch/v1/namespaces/shop/jobs': {
      items: [
        job('other-1', 'other', '2026-01-09'),
        ...[1, 2, 3, 4, 5, 6].map((i) => job(`backup-${i}`, 'backup', `2026-01-0${i}`)),
      ],
    },
    '/api/v1/namespaces/shop/pods': { items: [{ metadata: { name: 'a pod', namespace: 'shop' } }] },
  })
  const pods = await podsOfObject(
    (path) => {
      asked.push(decodeURIComponent(path))
      return answers(path)
    },
    { group: 'batch', kind: 'CronJob', namespace: 'shop', name: 'backup' },
  )
  expect(pods).toHaveLength(5)
  const selectors = asked.flatMap((p) => /labelSelector=job=([\w-]+)/.exec(p)?.[1] ?? [])
  expect(selectors).toEqual(['backup-6', 'backup-5', 'backup-4', 'backup-3', 'backup-2'])
})

const web = { group: 'apps', kind: 'Deployment', namespace: 'shop', name: 'web' }
const well = {
  metadata: { name: 'web-1', namespace: 'shop' },
  status: { phase: 'Running', containerStatuses: [{ name: 'main', ready: true, state: { running: {} } }] },
}
const crashing = {
  metadata: { name: 'web-2', namespace: 'shop' },
  status: {
    phase: 'Running',
    containerStatuses: [
      {
        name: 'main',
        ready: false,
        restartCount: 14,
        state: { waiting: { reason: 'CrashLoopBackOff' } },
        lastState: { terminated: { exitCode: 1 } },
      },
    ],
  },
}

test('the cause is the worst pod, with the last lines of the container before the restart', async () => {
  const found = await findingOf(
    cluster({
      '/apis/apps/v1/namespaces/shop/deployments/web': {
        metadata: { name: 'web' },
        spec: { selector: { matchLabels: { app: 'web' } } },
      },
      '/api/v1/namespaces/shop/pods': { items: [well, crashing] },
      '/api/v1/namespaces/shop/pods/web-2/log?container=main&tailLines=20&limitBytes=262144&previous=true':
        'dial tcp\npanic: refused\n',
      '/api/v1/namespaces/shop/events': {
        items: [
          { type: 'Normal', reason: 'Pulled', message: 'there' },
          { type: 'Warning', reason: 'BackOff', message: 'restarts', lastTimestamp: '2026-01-01T00:00:00Z' },
        ],
      },
    }),
    [web],
  )
  expect(found).toMatchObject({
    kind: 'Pod',
    name: 'web-2',
    container: 'main',
    words: 'CrashLoopBackOff, exit code 1',
    restarts: 14,
    previous: true,
    lines: ['dial tcp', 'panic: refused'],
    events: [{ reason: 'BackOff', message: 'restarts' }],
  })
})

test('a pod that no node takes says why, and that it has no log', async () => {
  const found = await findingOf(
    cluster({
      '/apis/apps/v1/namespaces/shop/deployments/web': {
        metadata: { name: 'web' },
        spec: { selector: { matchLabels: { app: 'web' } } },
      },
      '/api/v1/namespaces/shop/pods': {
        items: [
          {
            metadata: { name: 'web-3', namespace: 'shop' },
            spec: { containers: [{ name: 'main' }] },
            status: {
              phase: 'Pending',
              conditions: [
                { type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message: '0/3 nodes' },
              ],
            },
          },
        ],
      },
    }),
    [web],
  )
  expect(found).toMatchObject({ name: 'web-3', words: 'Unschedulable, 0/3 nodes', lines: [], events: [] })
  expect(found?.noLog).toContain('not found')
})

test('pods that the person may not see are said, and a workload that is gone is not an error', async () => {
  const refusing = async (path: string): Promise<Response> => {
    throw new Refused(`may not read ${path}`, Code.PermissionDenied, 403)
  }
  await expect(findingOf(refusing, [web])).rejects.toThrow('may not read')
  expect(await findingOf(cluster({}), [web])).toMatchObject({ kind: 'Deployment', name: 'web', lines: [] })
  expect(await findingOf(cluster({}), [])).toBeUndefined()
})

test('events of a service are those of its objects, of their pods and of what made these, the newest first', async () => {
  const event = (kind: string, name: string, lastTimestamp: string) => ({
    involvedObject: { kind, namespace: 'shop', name },
    reason: `${kind} ${name}`,
    lastTimestamp,
  })
  const answers = {
    '/apis/apps/v1/namespaces/shop/deployments/web': {
      metadata: { name: 'web' },
      spec: { selector: { matchLabels: { app: 'web' } } },
    },
    '/api/v1/namespaces/shop/pods': {
      items: [
        {
          metadata: {
            name: 'web-1-x',
            namespace: 'shop',
            ownerReferences: [{ kind: 'ReplicaSet', name: 'web-1' }],
          },
        },
      ],
    },
    '/api/v1/namespaces/shop/events': {
      items: [
        event('Deployment', 'web', '2026-01-01T00:00:01Z'),
        event('Pod', 'web-1-x', '2026-01-01T00:00:03Z'),
        event('ReplicaSet', 'web-1', '2026-01-01T00:00:02Z'),
        event('Pod', 'web-api-1', '2026-01-01T00:00:04Z'),
      ],
    },
  }
  const { events, partial } = await eventsOfObjects(cluster(answers), [web])
  expect(events.map((e) => e.reason)).toEqual(['Pod web-1-x', 'ReplicaSet web-1', 'Deployment web'])
  expect(partial).toBe(false)
  const more = { metadata: { continue: 'x' }, items: [] }
  const cut = await eventsOfObjects(cluster({ ...answers, '/api/v1/namespaces/shop/events': more }), [web])
  expect(cut).toEqual({ events: [], partial: true })
  await expect(eventsOfObjects(cluster({}), [web])).rejects.toThrow('not found')
})

test('a page knows that the hub has another one, and takes no answer of a proxy for it', () => {
  const document = (name: string) =>
    `<!doctype html><script type="module" crossorigin src="/assets/${name}.js"></script><div id="root">`
  expect(isNewer(document('index-new'), '/assets/index-old.js')).toBe(true)
  expect(isNewer(document('index-old'), '/assets/index-old.js')).toBe(false)
  expect(isNewer('<html>502 Bad Gateway', '/assets/index-old.js')).toBe(false)
  expect(isNewer('', '/assets/index-old.js')).toBe(false)
})

test('the users of values are told by what they get, and from where instead', () => {
  const users = [
    create(ConfigUserSchema, {
      service: 'web',
      cluster: 'edge-1',
      entries: [
        { name: 'level', origin: 'configset/base', overriddenBy: 'service/web' },
        { name: 'host', origin: 'configset/base' },
      ],
    }),
  ]
  const [web] = users
  expect(web && [namesOf(web, false), namesOf(web, true)]).toEqual(['host', 'level (service/web)'])
  expect(rowsOf(users)).toMatchObject([
    { service: 'web', entry: 'level', over: 'service/web' },
    { service: 'web', entry: 'host', over: '' },
  ])
  const set = create(ConfigSetSchema, { spec: { entries: { b: {}, a: {} } } })
  expect(entriesOf('configset', set)).toEqual(['a', 'b'])
  expect(['configset', 'sink'].map((path) => hasUsers(path, set))).toEqual([true, false])
  expect(hasUsers('project', create(ProjectSchema, {}))).toBe(false)
  expect(hasUsers('project', create(ProjectSchema, { spec: { config: { a: {} } } }))).toBe(true)
})

test('what was done is undone once, or tried again, and five are kept', async () => {
  const tray = new Tray()
  let fails = true
  const undo = vi.fn(() => (fails ? Promise.reject(new Error('no')) : Promise.resolve()))
  tray.add('Hold web', undo)
  const last = () => tray.snapshot()[0] ?? expect.fail()
  await tray.undo(last().id)
  expect(last()).toMatchObject({ what: 'Hold web', state: 'failed' })
  fails = false
  await Promise.all([tray.undo(last().id), tray.undo(last().id)])
  await tray.undo(last().id)
  expect(last().state).toBe('undone')
  expect(undo).toHaveBeenCalledTimes(2)
  tray.add('Delete web', async () => 'It has onDelete: orphan.')
  await tray.undo(last().id)
  expect(last()).toMatchObject({ state: 'undone', note: 'It has onDelete: orphan.' })
  for (let i = 0; i < 7; i++) tray.add(`Pin ${i}`, undo)
  expect(tray.snapshot().map((d) => d.what)).toEqual(['Pin 6', 'Pin 5', 'Pin 4', 'Pin 3', 'Pin 2'])
})

test('what was refused of several services stays where the page does not show it any more', async () => {
  const hold = verbs.find((v) => v.name === 'Hold') ?? expect.fail()
  const undo = vi.fn(async () => undefined)
  const came = [
    { name: 'api', error: '', undo },
    { name: 'bar', error: 'you may not deploy it' },
    { name: 'web', error: 'it is gone' },
  ]
  const shown = new Tray()
  keep(shown, hold, came, true)
  expect(shown.snapshot().map((d) => d.what)).toEqual(['Hold 1 service'])
  const gone = new Tray()
  keep(gone, hold, came, false)
  const [refused, done] = gone.snapshot()
  expect(done).toMatchObject({ what: 'Hold 1 service', state: 'done' })
  expect(refused).toMatchObject({
    what: 'Hold 2 services',
    state: 'refused',
    failure: { message: 'bar: you may not deploy it\nweb: it is gone' },
  })
  const many = Array.from({ length: 57 }, (_, i) => ({ name: `s${i}`, error: 'no' }))
  keep(shown, hold, many, false)
  expect(shown.snapshot()[0]?.failure).toMatchObject({
    message: 's0: no\ns1: no\ns2: no\ns3: no\ns4: no\nAnd 52 more.',
  })
  await gone.undo(refused?.id ?? 0) // there is nothing to undo
  expect(gone.snapshot()[0]?.state).toBe('refused')
  await gone.undo(done?.id ?? 0)
  expect(undo).toHaveBeenCalledOnce()
  const none = new Tray()
  keep(none, hold, [{ name: 'api', error: '' }], false)
  expect(none.snapshot()).toEqual([])
})

describe('a lever', () => {
  const commit = 'a'.repeat(40)
  type Levers = MessageInitShape<typeof ServiceLeversSchema>
  const service = (levers: Levers) => create(ServiceSchema, { metadata: { name: 'web' }, levers })
  // What undoes a lever asks of the hub: levers as they were before it and after it, and as they are by now.
  const undone = async (verb: string, before: Levers, after: Levers = {}, now = after) => {
    const asked: unknown[] = []
    const note = (what: string) => async (r: object) => {
      asked.push([what, r])
      return {}
    }
    const hub = {
      getService: async () => ({ service: service(now) }),
      holdService: note('hold'),
      resumeService: note('resume'),
      pinService: note('pin'),
    }
    const says = await undoOf(verb, service(before), hub)?.({ service: service(after) })
    return asked[0] ?? says
  }
  const hold = { mode: { mode: SyncMode.HOLD, reason: 'odd', author: 'user:ada' } }
  const suspend = { mode: { mode: SyncMode.SUSPEND, reason: 'night' } }
  const pin = { pin: { commit, reason: 'bad' } }
  const rolledBack = { pin: { commit, deployment: 41n, author: 'user:bob' } }

  test('goes back to where it was, as far as a lever can', async () => {
    expect(await undone('Hold', {}, hold)).toEqual(['resume', { name: 'web' }])
    expect(await undone('Pin', {}, pin)).toMatchObject(['pin', { name: 'web', commit: '' }])
    expect(await undone('Resume', suspend)).toEqual([
      'hold',
      { name: 'web', mode: SyncMode.SUSPEND, reason: 'night' },
    ])
    expect(await undone('Unpin', { pin: { commit, reason: 'bad', unpinAfter: commit } })).toMatchObject([
      'pin',
      { commit, reason: 'bad', untilNext: true },
    ])
    // What files say, and a rollback, are no levers to put back.
    expect(await undone('Hold', suspend, hold)).toMatchObject([
      'hold',
      { mode: SyncMode.SUSPEND, reason: 'night' },
    ])
    expect(await undone('Pin', pin, { pin: { commit, reason: 'worse' } })).toMatchObject([
      'pin',
      { commit, reason: 'bad' },
    ])
    expect(await undone('Pin', rolledBack, pin)).toBeUndefined()
    expect(await undone('Resume', {})).toBeUndefined()
    expect(await undone('Unpin', {})).toBeUndefined()
    expect(await undone('Unpin', rolledBack)).toBeUndefined()
  })

  test('stays where somebody else has pulled it since', async () => {
    const bobs = { mode: { ...suspend.mode, author: 'user:bob' } }
    await expect(undone('Hold', {}, hold, bobs)).rejects.toThrow('user:bob has pulled it since')
    await expect(undone('Hold', suspend, hold, {})).rejects.toThrow('It has ended since')
    await expect(undone('Resume', hold, {}, bobs)).rejects.toThrow('user:bob has pulled it since')
    await expect(undone('Pin', {}, pin, rolledBack)).rejects.toThrow('user:bob has pulled it since')
    await expect(undone('Unpin', pin, {}, rolledBack)).rejects.toThrow('user:bob has pulled it since')
    // A lever of another kind is no reason.
    expect(await undone('Hold', {}, hold, { ...hold, ...rolledBack })).toEqual(['resume', { name: 'web' }])
    // What was undone, and pulled again by undoing that, is as it was but for its time.
    const again = { pin: { ...pin.pin, sinceTime: { seconds: 9n } } }
    expect(await undone('Pin', {}, pin, again)).toMatchObject(['pin', { commit: '' }])
  })

  test('that has gone back already is left alone', async () => {
    expect(await undone('Hold', {}, hold, {})).toBe('It had gone back already.')
    expect(await undone('Unpin', pin, {}, pin)).toBe('It had gone back already.')
  })
})

test('of levers of several services, those that could not be undone are undone with the next try', async () => {
  let refuses = true
  const asked: string[] = []
  const undo = (name: string) => async () => {
    asked.push(name)
    if (name === 'web' && refuses) throw new Error('somebody else was faster')
  }
  const all = undoAll([
    ['api', undo('api')],
    ['web', undo('web')],
  ])
  await expect(all()).rejects.toThrow('1 of 2 are not undone. web: somebody else was faster')
  refuses = false
  await all()
  expect(asked).toEqual(['api', 'web', 'web'])
})

test('a service is read before a lever that can be undone, and not before a sync', async () => {
  const asked: string[] = []
  const answer = (what: string) => async () => {
    asked.push(what)
    return { service: create(ServiceSchema, { metadata: { name: 'web' } }) }
  }
  const hub = {
    getService: answer('get'),
    requestSync: answer('sync'),
    holdService: answer('hold'),
    resumeService: answer('resume'),
    pinService: answer('pin'),
  }
  const pulled = async (name: string) => {
    asked.length = 0
    const undo = await pull(hub, verbs.find((v) => v.name === name) ?? expect.fail(), 'web', 'because')
    return [...asked, undo ? 'undo' : '']
  }
  expect(await pulled('Sync')).toEqual(['sync', ''])
  expect(await pulled('Hold')).toEqual(['get', 'hold', 'undo'])
})

test('the values of a Secret that the agent does not read are hidden, and not missing', () => {
  expect(valuesOf({ live: '', wanted: '' })).toBeUndefined()
  expect(valuesOf({ live: '', wanted: '3' })).toEqual(['not there', '3'])
  expect(valuesOf({ live: '5', wanted: '' })).toEqual(['5', 'not there'])
})

test('a cluster that is connected is not called healthy, and one that was heard has joined', () => {
  const of = (s: MessageInitShape<typeof ClusterStatusSchema>) => connectionOf(create(ClusterStatusSchema, s))
  expect(of({ connected: true })).toEqual(['healthy', 'connected'])
  expect(of({ lastSeenTime: { seconds: 1n } })).toEqual(['unknown', 'not connected'])
  expect(of({ joinTime: { seconds: 1n }, leaveTime: { seconds: 2n } })).toEqual(['unknown', 'left'])
  expect(of({})).toEqual(['unknown', 'never joined'])
})

test('a manifest has its maps in order, and neither levers nor freezes', () => {
  const project = kindNamed('Project') as ResourceKind
  const text = manifest(
    project,
    create(ProjectSchema, {
      metadata: { name: 'shop', labels: { team: 'shop', env: 'prod', 'a.example.com/b': '1' } },
      spec: {
        config: { zone: {}, area: {} },
      },
      freeze: { author: 'user:ada', reason: 'the sale' },
    } as MessageInitShape<typeof ProjectSchema>),
  )
  expect(text).not.toContain('freeze')
  expect([...text.matchAll(/^\s+(\S+):/gm)].map((m) => m[1])).toEqual([
    'name',
    'labels',
    'a.example.com/b',
    'env',
    'team',
    'config',
    'area',
    'zone',
  ])
})

test('the roles that are always there are asked of the method: the stream has those of the catalog only', () => {
  expect(answerOf(RoleService.method.listRoles, { pageSize: 100 })).toBeUndefined()
  expect(answerOf(RoleService.method.getRole, { name: 'admin' })).toBeDefined()
  expect(answerOf(GrantService.method.listGrants, { pageSize: 100 })).toBeDefined()
})

describe('what is said of a deletion', () => {
  const web = create(ServiceSchema, { metadata: { name: 'web' }, spec: { cluster: 'edge-1' } })
  const at = (connected: boolean | undefined, objects: number) =>
    createRouterTransport((router) => {
      router.rpc(ObjectService.method.listObjects, () => ({
        objects: Array.from({ length: objects }, (_, i) => ({
          object: { kind: 'ConfigMap', name: `c${i}` },
          observedTime: timestampFromMs(60_000),
        })),
      }))
      router.rpc(ClusterService.method.getCluster, () => {
        if (connected === undefined) throw new ConnectError('you may not see it', Code.NotFound)
        return { cluster: { status: { connected } } }
      })
      router.rpc(RevisionService.method.listDeployments, () => ({
        deployments: [
          { digest: 'keeps', specRevision: 3n },
          { digest: 'prunes', specRevision: 2n },
        ],
      }))
      router.rpc(RevisionService.method.listRevisions, () => ({
        revisions: [3n, 2n].map((revision) => ({
          revision,
          resource: {
            resource: {
              case: 'service' as const,
              value: { spec: { sync: { onDelete: revision === 3n ? DeletePolicy.ORPHAN : 0 } } },
            },
          },
        })),
      }))
    })
  const orphan = (reported: string) =>
    create(ServiceSchema, {
      metadata: { name: 'web' },
      spec: { cluster: 'edge-1', sync: { onDelete: DeletePolicy.ORPHAN } },
      status: { hub: { digest: 'keeps' }, cluster: { report: { digest: reported } } },
    })
  const loss = (connected: boolean | undefined, objects = 2, of = web) =>
    lossOfService(of, at(connected, objects), () => 360_000)
  test('is what the cluster told, with its age', async () => {
    const told = [
      'Cluster edge-1 told of its objects 5m ago.',
      { says: 'Cluster edge-1 loses 2 objects:', each: ['2 ConfigMaps: c0, c1'] },
    ]
    expect((await loss(true)).says).toEqual(told)
    expect((await loss(undefined)).says).toEqual(told)
    expect((await loss(true, 0)).says).toEqual(['Cluster edge-1 has told of no objects of it.'])
    expect((await loss(true)).keep?.says).toBe(
      'Cluster edge-1 keeps 2 objects, without the mark of the service.',
    )
  })
  test('counts the services of a cluster that the person sees, and says that there may be others', async () => {
    const of = (administrator: boolean | undefined) =>
      lossOfCluster(
        'edge-1',
        createRouterTransport((router) => {
          router.rpc(LiveService.method.countResources, () => ({ counts: [{ count: 3 }] }))
          router.rpc(AccessService.method.getCaller, () => {
            if (administrator === undefined) throw new ConnectError('away', Code.Unavailable)
            return { administrator }
          })
        }),
      )
    expect((await of(true)).says[1]).toMatch(/^What is applied there of its 3 services stays, /)
    for (const not of [false, undefined]) {
      const { says } = await of(not)
      expect(says[1]).toMatch(/^What is applied there stays, /)
      expect(says[2]).toBe(
        'You may see 3 services of the cluster. If it has others, the same holds for them.',
      )
    }
  })
  test('waits for a cluster that is away', async () => {
    const { says, keep } = await loss(false)
    expect(says[0]).toBe('Cluster edge-1 is not connected: nothing is deleted there until it is back.')
    expect(keep?.says).toContain('unless it is back within two minutes the service is not deleted')
  })
  test('is nothing where the objects stay', async () => {
    expect(await loss(true, 2, orphan('keeps'))).toEqual({
      says: [
        'Cluster edge-1 told of its objects 5m ago.',
        'Cluster edge-1 keeps 2 objects: spec.sync.onDelete is orphan.',
      ],
      grave: false,
    })
    expect((await loss(false, 2, orphan('keeps'))).keep).toBeUndefined()
  })
  test('promises nothing of a cluster that has not heard yet that the objects stay', async () => {
    for (const [connected, digest] of [
      [false, 'prunes'],
      [true, 'prunes'],
      [true, 'unknown'],
      [true, ''],
    ] as const) {
      const { says, keep } = await loss(connected, 2, orphan(digest))
      expect(says).toContain(
        'spec.sync.onDelete is orphan, and cluster edge-1 has not reported yet that it knows.',
      )
      expect(says.at(-1)).toEqual({
        says: 'Cluster edge-1 loses 2 objects:',
        each: ['2 ConfigMaps: c0, c1'],
      })
      expect(keep?.choice).toBe('Leave its objects in the cluster')
    }
    const { keep } = await loss(false, 0, orphan('')) // it may have some that it has not told of
    expect(keep?.says).toMatch(/^Cluster edge-1 keeps what it has of it, without the mark/)
  })
})

describe('what goes with a namespace', () => {
  const kind = (name: string, plural: string, namespaced = true): ClusterKind => ({
    group: '',
    version: 'v1',
    kind: name,
    plural,
    namespaced,
    verbs: ['list', 'delete'],
    short: [],
    parts: [],
  })
  const namespaces = kind('Namespace', 'namespaces', false)
  const kinds = [kind('ConfigMap', 'configmaps'), kind('Pod', 'pods')]
  const shop = { metadata: { name: 'shop' } }
  const said = (ask: Parameters<typeof consequencesOf>[0]) => consequencesOf(ask, namespaces, kinds, shop)
  const list = (names: string[], more = 0) => ({
    rows: names.map((n) => ({ cells: [n, '1m'] })),
    metadata: more ? { continue: 'x', remainingItemCount: more } : {},
  })
  test('is counted, and the first of each kind stand by their names', async () => {
    expect(
      await said(
        cluster({
          '/api/v1/namespaces/shop/configmaps': list(['a', 'b', 'c'], 1),
          '/api/v1/namespaces/shop/pods': list(['web-0']),
        }),
      ),
    ).toEqual([
      { says: 'Everything in it goes:', each: ['4 ConfigMaps: a, b, c and 1 more', '1 Pod: web-0'] },
    ])
  })
  test('is nothing where nothing is', async () => {
    const empty = list([])
    expect(
      await said(
        cluster({ '/api/v1/namespaces/shop/configmaps': empty, '/api/v1/namespaces/shop/pods': empty }),
      ),
    ).toEqual(['Nothing is in it.'])
  })
  test('is not called nothing where it is not known', async () => {
    expect(await said(cluster({ '/api/v1/namespaces/shop/pods': list([]) }))).toEqual([
      'Everything in it goes. You may see nothing of it.',
      '1 kind in it could not be counted.',
    ])
  })
  test('is not made up of a cluster that does not answer', async () => {
    await expect(said(() => Promise.reject(new TypeError('Failed to fetch')))).rejects.toThrow(
      'Failed to fetch',
    )
    const away = new Refused('cluster "edge-1" is not connected', Code.Unavailable, 503)
    await expect(said(() => Promise.reject(away))).rejects.toThrow('is not connected')
  })
})

test('what goes with a service is counted by kind, and what takes others along stands by its name', () => {
  const object = (kind: string, name: string, group = '') => ({ group, kind, name })
  expect(lossOf([], 'edge-1')).toEqual({
    says: ['Cluster edge-1 has told of no objects of it.'],
    grave: false,
  })
  expect(lossOf([object('ConfigMap', 'a')], 'edge-1')).toEqual({
    says: [{ says: 'Cluster edge-1 loses 1 object:', each: ['1 ConfigMap: a'] }],
    grave: false,
  })
  const crd = object('CustomResourceDefinition', 'boats.example.com', 'apiextensions.k8s.io')
  expect(
    lossOf([object('Service', 'b'), object('ConfigMap', 'a'), crd, object('Service', 'c')], 'edge-1'),
  ).toEqual({
    says: [
      {
        says: 'Cluster edge-1 loses 4 objects:',
        each: [
          'CustomResourceDefinition boats.example.com, unless others have resources of that kind',
          '1 ConfigMap: a',
          '2 Services: b, c',
        ],
      },
    ],
    grave: true,
  })
  expect(lossOf([object('Namespace', 'shop')], 'edge-1').grave).toBe(true)
  const many = (n: number) => Array.from({ length: n }, (_, i) => object('ConfigMap', `c${i}`))
  expect([lossOf(many(10), 'edge-1').grave, lossOf(many(11), 'edge-1').grave]).toEqual([false, true])
})

test('several objects of a kind have its plural, and no more than the first are named', () => {
  for (const [kind, plural] of [
    ['Ingress', 'Ingresses'],
    ['NetworkPolicy', 'NetworkPolicies'],
    ['Gateway', 'Gateways'],
    ['Endpoints', 'Endpoints'],
  ] as const)
    expect(ofKind(kind, ['a', 'b'])).toBe(`2 ${plural}: a, b`)
  expect(ofKind('Ingress', ['a'])).toBe('1 Ingress: a')
  expect(ofKind('Pod', ['a', 'b', 'c', 'd'])).toBe('4 Pods: a, b, c and 1 more')
  expect(ofKind('Pod', [], 1200)).toBe('1,200 Pods')
})

test('objects whose order is held keep their groups, whatever becomes of them', () => {
  const object = (kind: string, name: string, health: string) =>
    create(ClusterObjectSchema, { object: { kind, name }, report: { health } })
  const before = grouped([
    object('Pod', 'a', 'Healthy'),
    object('Pod', 'b', 'Degraded'),
    object('Job', 'c', 'Failed'),
  ])
  const names = (of: typeof before) =>
    of.map((g) => `${g.kind} ${g.list.map((o) => o.object?.name).join('')}`)
  const well = before
    .flatMap((g) => g.list)
    .map((o) => object(o.object?.kind ?? '', o.object?.name ?? '', 'Healthy'))
  expect(names(groupsOf(well))).toEqual(names(before))
  expect(groupsOf(well).map((g) => g.worst)).toEqual(['healthy', 'healthy'])
})

describe('the rows of a list that a person is in', () => {
  const row = (text: string) => ({ name: text[0] ?? '', text })
  const rowsOf = (...texts: string[]) => texts.map(row)
  const list = () => {
    const draw = vi.fn()
    const held = new Held<ReturnType<typeof row>>(draw)
    const take = (of: string, ...texts: string[]) => {
      const { rows, waiting } = held.take(of, rowsOf(...texts), (r) => r.name)
      return [rows.map((r) => r.text).join(' '), waiting && { ...waiting, gone: [...waiting.gone].join('') }]
    }
    return { draw, held, take }
  }
  test('stay in place: they change where they are, and what came or went waits', () => {
    const { draw, held, take } = list()
    expect(take('q', 'a1', 'b1', 'c1')).toEqual(['a1 b1 c1', undefined])
    held.enter('pointer')
    expect(take('q', 'a2', 'b1', 'c1')).toEqual(['a2 b1 c1', undefined])
    expect(take('q', 'd1', 'c2', 'a3')).toEqual(['a3 b1 c2', { came: 1, gone: 'b', moved: true }])
    expect(draw).not.toHaveBeenCalled()
    held.leave('pointer')
    expect(draw).toHaveBeenCalledTimes(1)
    expect(take('q', 'd1', 'c2', 'a3')).toEqual(['d1 c2 a3', undefined])
  })
  test('stay while the pointer or the focus is among them', () => {
    const { held, take } = list()
    take('q', 'a', 'b')
    held.enter('pointer')
    held.enter('focus')
    held.leave('pointer')
    expect(take('q', 'b', 'a')[0]).toBe('a b')
    held.leave('focus')
    expect(take('q', 'b', 'a')[0]).toBe('b a')
  })
  test('show at once what the person did', () => {
    const { held, take } = list()
    take('q', 'a', 'b')
    held.enter('pointer')
    held.own()
    expect(take('q', 'a', 'b')).toEqual(['a b', undefined])
    expect(take('q', 'b')).toEqual(['b', undefined])
    expect(take('q', 'c', 'b')).toEqual(['b', { came: 1, gone: '', moved: false }])
  })
  test('answer another question at once', () => {
    const { held, take } = list()
    take('by name', 'a', 'b')
    held.enter('pointer')
    expect(take('by state', 'b', 'a')).toEqual(['b a', undefined])
  })
  test('take their order again a minute after the last sign of the person', () => {
    vi.useFakeTimers()
    try {
      const { draw, held, take } = list()
      take('q', 'a', 'b')
      held.enter('pointer')
      expect(take('q', 'b', 'a')[0]).toBe('a b')
      vi.advanceTimersByTime(59_000)
      held.enter('pointer')
      vi.advanceTimersByTime(59_000)
      expect([take('q', 'b', 'a')[0], draw.mock.calls.length]).toEqual(['a b', 0])
      vi.advanceTimersByTime(2_000)
      expect([take('q', 'b', 'a')[0], draw.mock.calls.length]).toEqual(['b a', 1])
    } finally {
      vi.useRealTimers()
    }
  })
})

test('each kind is deleted by its own method', () => {
  expect(kinds.map((k) => k.remove.name)).toEqual(kinds.map((k) => `Delete${k.name}`))
  for (const k of kinds) expect(k.remove.parent).toBe(k.get.parent)
})

test('what a global service deletes is named with its clusters, and many want the name typed', () => {
  const plan = (listed: number, deleted: number, all = true) =>
    lossOfPlan(
      {
        services: [
          ...Array.from({ length: listed }, (_, i) =>
            planned(`web-edge-${i}`, `edge-${i}`, PlannedAction.DELETE),
          ),
          planned('web-hub', 'hub', PlannedAction.KEEP),
        ],
        deleted,
      },
      all,
    )
  const planned = (name: string, cluster: string, action: PlannedAction) =>
    create(PlannedServiceSchema, { name, cluster, action })
  expect(plan(1, 1)).toEqual({
    says: [
      {
        says: '1 cluster loses the service, with its objects unless its spec.sync.onDelete is orphan:',
        each: ['web-edge-0 at edge-0'],
      },
    ],
    grave: false,
  })
  const [many] = plan(1000, 1200).says
  expect(many).toMatchObject({ says: expect.stringContaining('clusters lose the service, with') })
  expect((many as { each: string[] }).each.at(-1)).toBe('200 services more, which the hub does not list')
  expect([plan(10, 10).grave, plan(11, 11).grave]).toEqual([false, true])
  expect(plan(1, 1, false).says.at(-1)).toMatch(/^Only services that you may see are counted here\. /)
})
