import { Code, ConnectError } from '@connectrpc/connect'
import { expect, test, vi } from 'vitest'
import { Exec } from '../cluster/exec'
import { kindsOf, pathOf, sectioned } from '../cluster/kinds'
import { type LogLine, Logs, merge, parsed } from '../cluster/logs'
import { listsFor, owners, readOwned } from '../cluster/owned'
import { conflictsOf, diffLines, patchOf } from '../cluster/patch'
import { type Ask, askOf, json, linesOf, Refused, read, refusal } from '../cluster/request'
import { Watched } from '../cluster/table'

const body = (...chunks: string[]) =>
  new ReadableStream<Uint8Array>({
    start(c) {
      for (const chunk of chunks) c.enqueue(new TextEncoder().encode(chunk))
      c.close()
    },
  })

async function all<T>(of: AsyncGenerator<T>): Promise<T[]> {
  const out: T[] = []
  for await (const one of of) out.push(one)
  return out
}

test('lines of a stream are whole wherever it is cut, and a long one is cut', async () => {
  expect(await all(linesOf(body('a', 'b\nc', '\n\nd')))).toEqual(['ab', 'c', '', 'd'])
  expect(await all(linesOf(body('12345678', '9\nnext\n'), 4))).toEqual(['1234', 'next'])
})

test('an error of a cluster is said in its words, and what is no cluster is told apart', async () => {
  const status = await refusal(
    new Response(JSON.stringify({ kind: 'Status', message: 'pods "x" not found' }), { status: 404 }),
  )
  expect([status.code, status.rawMessage]).toEqual([Code.NotFound, 'pods "x" not found'])
  const nothing = await refusal(new Response('404 page not found', { status: 404 }))
  expect(nothing.code).toBe(Code.FailedPrecondition)
  expect(nothing.rawMessage).toContain('no route for /clusters/')
  expect((await refusal(new Response('', { status: 403 }))).code).toBe(Code.PermissionDenied)
})

test('an answer without an end takes no tab along', async () => {
  await expect(read(new Response('x'.repeat(3 << 20)), 2 << 20)).rejects.toThrow('more than 2 MiB')
  await expect(json(Promise.resolve(new Response('<html>')))).rejects.toThrow('no JSON')
})

test('kinds are listed once, in the version that the cluster prefers, and custom ones by their group', () => {
  const version = (v: string, ...names: string[]) => ({
    version: v,
    resources: names.map((n) => ({
      resource: n,
      responseKind: { kind: n },
      scope: 'Namespaced',
      verbs: ['list'],
    })),
  })
  const kinds = kindsOf({
    items: [
      { metadata: {}, versions: [version('v1', 'pods', 'bindings')] },
      {
        metadata: { name: 'apps' },
        versions: [version('v1', 'deployments'), version('v1beta1', 'deployments')],
      },
      { metadata: { name: 'b.example.com' }, versions: [version('v1', 'boats')] },
    ],
  })
  expect(kinds.filter((k) => k.plural === 'deployments').map((k) => k.version)).toEqual(['v1'])
  expect(sectioned(kinds).map((s) => [s.name, s.kinds.map((k) => k.plural)])).toEqual([
    ['Workloads', ['pods', 'deployments']],
    ['b.example.com', ['boats']],
    ['Other', ['bindings']],
  ])
  expect(pathOf({ group: '', version: 'v1', plural: 'pods' }, 'a/b', '../x')).toBe(
    '/api/v1/namespaces/a%2Fb/pods/..%2Fx',
  )
})

const row = (name: string, version: string) => ({
  cells: [name],
  object: { metadata: { name, uid: name, resourceVersion: version } },
})
const settled = () => new Promise((done) => setTimeout(done, 0))

test('a list is followed, taken up again where it was cut, and read anew when that is too late', async () => {
  const asked: string[] = []
  const answers: (() => Response | Promise<Response>)[] = [
    () =>
      Response.json({
        columnDefinitions: [],
        rows: [row('a', '1'), row('b', '2')],
        metadata: { resourceVersion: '5' },
      }),
    () =>
      new Response(
        body(
          `${JSON.stringify({ type: 'MODIFIED', object: { rows: [row('a', '6')] } })}\n`,
          `${JSON.stringify({ type: 'ADDED', object: { rows: [row('c', '7')] } })}\n`,
          `${JSON.stringify({ type: 'DELETED', object: { rows: [row('b', '8')] } })}\n`,
          `${JSON.stringify({ type: 'ERROR', object: { code: 410 } })}\n`,
        ),
      ),
    () =>
      Response.json({ columnDefinitions: [], rows: [row('z', '20')], metadata: { resourceVersion: '20' } }),
    () => new Promise<Response>(() => undefined),
  ]
  const ask: Ask = async (path) => {
    asked.push(path)
    return (answers.shift() as () => Response)()
  }
  const list = new Watched(ask, '/api/v1/pods', {}, 'Metadata', true, () => 0)
  const seen: string[] = []
  await new Promise<void>((done) => {
    const leave = list.subscribe(() => {
      seen.push(
        list
          .snapshot()
          .rows.map((r) => `${r.metadata.name}${r.metadata.resourceVersion}`)
          .join(' '),
      )
      if (seen.at(-1) !== 'z20') return
      leave()
      done()
    })
  })
  expect(asked[1]).toContain('resourceVersion=5')
  expect(seen).toContain('a1 b2')
  expect(seen).toContain('a6 c7')
  expect(seen.at(-1)).toBe('z20')
})

test('a list that a person may not see is asked for once', async () => {
  let asked = 0
  const ask: Ask = async () => {
    asked++
    throw new ConnectError('you may not', Code.PermissionDenied)
  }
  const list = new Watched(ask, '/api/v1/secrets', {}, 'None', true, () => 0)
  const leave = list.subscribe(() => undefined)
  await settled()
  await settled()
  expect(asked).toBe(1)
  expect(ConnectError.from(list.snapshot().failure).rawMessage).toBe('you may not')
  leave()
})

test('an edit sends the fields that a person changed, with what they were', () => {
  const before = { metadata: { labels: { 'a/b': '1', c: '2' } }, spec: { replicas: 1, list: [1, 2] } }
  const after = { metadata: { labels: { 'a/b': '3', d: '~' } }, spec: { replicas: 1, list: [1, 3] } }
  expect(patchOf(before, after)).toEqual([
    { op: 'test', path: '/metadata/labels/a~1b', value: '1' },
    { op: 'replace', path: '/metadata/labels/a~1b', value: '3' },
    { op: 'test', path: '/metadata/labels/c', value: '2' },
    { op: 'remove', path: '/metadata/labels/c' },
    { op: 'test', path: '/metadata/labels/d', value: null },
    { op: 'add', path: '/metadata/labels/d', value: '~' },
    { op: 'test', path: '/spec/list', value: [1, 2] },
    { op: 'replace', path: '/spec/list', value: [1, 3] },
  ])
  expect(patchOf(before, structuredClone(before))).toEqual([])
})

test('a field that a person and somebody else changed is a conflict, others are none', () => {
  const begun = { metadata: { labels: { 'a/b': '1' } }, spec: { replicas: 1, paused: true, list: [1] } }
  const typed = { metadata: { labels: { 'a/b': '2', c: 'mine' } }, spec: { replicas: 3, list: [2] } }
  const patch = patchOf(begun, typed)
  expect(conflictsOf(patch, begun)).toEqual([])
  const other = { ...begun, metadata: { labels: { 'a/b': '1', d: 'theirs' } }, status: { ready: 1 } }
  expect(conflictsOf(patch, other)).toEqual([])
  const same = { metadata: { labels: { 'a/b': '9', c: 'theirs' } }, spec: { replicas: 5, list: [1] } }
  expect(conflictsOf(patch, same)).toEqual([
    { path: '/metadata/labels/a~1b', was: '1', now: '9' },
    { path: '/metadata/labels/c', was: null, now: 'theirs' },
    { path: '/spec/replicas', was: 1, now: 5 },
    { path: '/spec/paused', was: true, now: undefined },
  ])
})

test('a diff shows what changed with its surroundings, and counts the rest', () => {
  const lines = Array.from({ length: 20 }, (_, i) => `line ${i}`)
  const after = [...lines]
  after[10] = 'other'
  after.splice(12, 0, 'new')
  expect(diffLines(lines.join('\n'), after.join('\n'), 1).map((l) => `${l.sign}${l.text}`)).toEqual([
    '…9 lines the same',
    ' line 9',
    '-line 10',
    '+other',
    ' line 11',
    '+new',
    ' line 12',
    '…7 lines the same',
  ])
})

test('a line of a log has its time in one form, and no colours; other sequences stay to be shown as codes', () => {
  expect(parsed('2026-01-02T03:04:05.12Z \u001b[31mred\u001b[0m \u001b[2Jx', 'c')).toEqual({
    time: '2026-01-02T03:04:05.120000000Z',
    from: 'c',
    text: 'red \u001b[2Jx',
    note: false,
  })
  expect(parsed('no time', 'c')).toMatchObject({ time: '', text: 'no time' })
})

test('lines of several containers stand in the order of their times, and none is lost', () => {
  const line = (time: string, from: string): LogLine => ({ time, from, text: `${from}${time}`, note: false })
  const into: LogLine[] = []
  merge(into, [line('1', 'a'), line('4', 'a')])
  merge(into, [line('2', 'b'), line('', 'b'), line('5', 'a'), line('3', 'c')])
  expect(into.map((l) => l.text)).toEqual(['a1', 'b2', 'b', 'c3', 'a4', 'a5'])
})

test('a log that is cut goes on without a line twice', async () => {
  const asked: string[] = []
  const first = '2026-01-01T00:00:00.1Z one\n2026-01-01T00:00:00.2Z two\n2026-01-01T00:00:00.2Z two again\n'
  const ask: Ask = async (path) => {
    asked.push(path)
    if (!path.includes('/log'))
      return Response.json({ status: { phase: asked.length > 3 ? 'Succeeded' : 'Running' } })
    return new Response(body(path.includes('sinceTime') ? `${first}2026-01-01T00:00:01Z three\n` : first))
  }
  const logs = new Logs(ask, { since: 0, previous: false }, () => 0)
  const done = new Promise<void>((ok) =>
    logs.subscribe(
      () => logs.running === 0 && logs.lines.some((l) => l.note && l.text.includes('ended')) && ok(),
    ),
  )
  logs.follow([{ namespace: 'd', pod: 'p', container: 'c' }])
  await done
  logs.end()
  expect(logs.lines.filter((l) => !l.note).map((l) => l.text)).toEqual(['one', 'two', 'two again', 'three'])
  expect(asked[2]).toContain('sinceTime=2026-01-01T00%3A00%3A00.200000000Z')
})

test('the log of a container that is not started yet comes once it is', async () => {
  let asked = 0
  const waits = 'container "c" in pod "p" is waiting to start: ContainerCreating'
  const ask: Ask = async (path) => {
    if (!path.includes('/log')) return Response.json({ status: { phase: 'Succeeded' } })
    if (++asked < 3) throw new Refused(waits, Code.InvalidArgument, 400)
    return new Response(body('2026-01-01T00:00:00Z one\n'))
  }
  const of = { namespace: 'd', pod: 'p', container: 'c' }
  const logs = new Logs(ask, { since: 0, previous: false }, () => 0)
  logs.follow([of])
  const all = [waits, 'one', 'the container has ended']
  await vi.waitFor(() => expect(logs.lines.map((l) => l.text)).toEqual(all), { timeout: 60_000 })
  logs.end()
})

test('a log whose session is over goes on once the person has logged in again', async () => {
  const first = '2026-01-01T00:00:00Z one\n'
  let session = true
  let ended = false
  const ask: Ask = async (path) => {
    if (!session) throw new Refused('log in', Code.Unauthenticated, 401)
    if (!path.includes('/log')) return Response.json({ status: { phase: ended ? 'Failed' : 'Running' } })
    if (!path.includes('sinceTime')) {
      session = false
      return new Response(body(first))
    }
    ended = true
    return new Response(body(`${first}2026-01-01T00:00:01Z two\n`))
  }
  const waits = vi.fn(async () => {
    session = true
  })
  const of = { namespace: 'd', pod: 'p', container: 'c' }
  const logs = new Logs(ask, { since: 0, previous: false }, () => 0, waits)
  logs.follow([of])
  const all = ['one', 'cut, resumed where it ended', 'two', 'the container has ended']
  await vi.waitFor(() => expect(logs.lines.map((l) => l.text)).toEqual(all), { timeout: 60_000 })
  expect(waits).toHaveBeenCalledTimes(1)
  logs.end()
})

test('a rollout takes nothing of a log away: what was read stays, and pods that come are read besides', async () => {
  const asked: string[] = []
  const of = (pod: string) => ({ namespace: 'd', pod, container: 'c' })
  const ask: Ask = async (path, init) => {
    const pod = /pods\/(\w+)\/log/.exec(path)?.[1] ?? ''
    asked.push(pod)
    const stream = new ReadableStream<Uint8Array>({
      start(c) {
        const second = { old: 1, new: 2, newer: 0 }[pod]
        c.enqueue(new TextEncoder().encode(`2026-01-01T00:00:0${second}Z of ${pod}\n`))
        init?.signal?.addEventListener('abort', () => c.error(init.signal?.reason))
      },
    })
    return new Response(stream)
  }
  const logs = new Logs(ask, { since: 0, previous: false }, () => 0)
  const has = (...lines: string[]) =>
    vi.waitFor(() => expect(logs.found.map((l) => l.text)).toEqual(lines), { timeout: 60_000 })
  logs.follow([of('old')])
  await has('of old')
  expect(logs.several).toBe(false)
  logs.follow([of('old'), of('new')])
  await has('of old', 'of new')
  expect([logs.several, logs.running]).toEqual([true, 2])
  // What is looked for is kept apart: a line that comes is put in there, too, and the others are not looked through.
  const looked: string[] = []
  logs.find((l) => looked.push(l.text) > 0 && l.text !== 'of old')
  await has('of new')
  looked.length = 0
  logs.follow([of('new'), of('newer')])
  await has('of newer', 'of new')
  await vi.waitFor(() => expect(logs.running).toBe(2), { timeout: 60_000 })
  expect(logs.lines.map((l) => l.text)).toEqual(['of newer', 'of old', 'of new'])
  logs.follow([of('new')])
  logs.find(undefined)
  await has('of newer', 'of old', 'of new')
  expect(asked).toEqual(['old', 'new', 'newer'])
  logs.end()
})

test('a pod that comes back under its name, as one of a StatefulSet, is read anew and from its beginning', async () => {
  const of = (uid: string) => ({ namespace: 'd', pod: 'db-0', container: 'c', uid })
  const asked: string[] = []
  let there = 'one'
  let cut = (_: Error) => {}
  const ask: Ask = async (path, init) => {
    if (!path.includes('/log'))
      return Response.json({ metadata: { uid: there }, status: { phase: 'Running' } })
    asked.push(`${there}${path.includes('sinceTime') ? ' resumed' : ''}`)
    const text = there === 'one' ? '2026-01-01T00:00:01Z of one\n' : '2026-01-01T00:00:02Z of two\n'
    return new Response(
      new ReadableStream<Uint8Array>({
        start(c) {
          c.enqueue(new TextEncoder().encode(text))
          cut = (e) => c.error(e)
          init?.signal?.addEventListener('abort', () => c.error(init.signal?.reason))
        },
      }),
    )
  }
  const logs = new Logs(ask, { since: 0, previous: false }, () => 0)
  const has = (...lines: string[]) =>
    vi.waitFor(() => expect(logs.lines.map((l) => l.text)).toEqual(lines), { timeout: 60_000 })
  logs.follow([of('one')])
  await has('of one')
  there = 'two'
  cut(new Error('cut'))
  await has('of one', 'cut', 'the container has ended')
  logs.follow([of('two')])
  await has('of one', 'cut', 'the container has ended', 'of two')
  expect(asked).toEqual(['one', 'two'])
  logs.end()
})

test('a line that comes looks through no more of a long log than what it moves', async () => {
  let send = (_: string) => {}
  const ask: Ask = async () =>
    new Response(
      new ReadableStream<Uint8Array>({
        start(c) {
          send = (text) => c.enqueue(new TextEncoder().encode(text))
        },
      }),
    )
  const line = (i: number) => `2026-01-01T00:00:00.${String(i).padStart(6, '0')}Z ${i}\n`
  const logs = new Logs(ask, { since: 0, previous: false }, () => 0)
  logs.follow([{ namespace: 'd', pod: 'p', container: 'c' }])
  await settled()
  send(Array.from({ length: 10_000 }, (_, i) => line(i)).join(''))
  await vi.waitFor(() => expect(logs.lines.length).toBe(10_000), { timeout: 60_000 })
  const looked = vi.fn((l: LogLine) => l.text.endsWith('0'))
  logs.find(looked)
  expect(logs.found.length).toBe(1000)
  looked.mockClear()
  send(line(10_000))
  await vi.waitFor(() => expect(logs.found.length).toBe(1001), { timeout: 60_000 })
  expect(looked.mock.calls.length).toBeLessThan(3)
  logs.end()
})

test('a log that has nothing new is said to be resumed once', async () => {
  const first = '2026-01-01T00:00:00Z one\n'
  let asked = 0
  const ask: Ask = async (path) => {
    if (!path.includes('/log')) return Response.json({ status: { phase: asked > 8 ? 'Failed' : 'Running' } })
    asked++
    return new Response(body(asked > 5 ? `${first}2026-01-01T00:00:01Z two\n` : first))
  }
  const of = { namespace: 'd', pod: 'p', container: 'c' }
  const logs = new Logs(ask, { since: 0, previous: false }, () => 0)
  logs.follow([of])
  const hasEnded = () => expect(logs.lines.at(-1)?.text).toBe('the container has ended')
  await vi.waitFor(hasEnded, { timeout: 60_000 })
  logs.end()
  const resumed = 'cut, resumed where it ended'
  expect(logs.lines.map((l) => l.text)).toEqual(['one', resumed, 'two', resumed, 'the container has ended'])
})

test('a terminal sends its size, pastes in pieces, and says how the command ended', async () => {
  const sent: Uint8Array[] = []
  const socket = {
    readyState: 1,
    send: (m: Uint8Array) => sent.push(m),
    close: () => undefined,
  } as unknown as WebSocket & { onmessage: (e: { data: ArrayBuffer }) => void; onclose: () => void }
  vi.stubGlobal('WebSocket', { OPEN: 1 })
  vi.stubGlobal('window', { location: { host: 'hub' } })
  const output: string[] = []
  let words = ''
  const exec = new Exec(
    async () => new Response(),
    'edge-1',
    '/api/v1/namespaces/d/pods/p/exec',
    { onOutput: (b) => output.push(new TextDecoder().decode(b)), onEnd: (w) => (words = w) },
    () => socket,
  )
  socket.onopen?.(new Event('open'))
  exec.resize(100, 30)
  exec.type('ü'.repeat(10_000))
  const text = (m: Uint8Array | undefined) => new TextDecoder().decode(m?.subarray(1))
  expect(text(sent[1])).toBe('{"Width":100,"Height":30}')
  expect(sent.slice(2).map((m) => [m[0], m.length])).toEqual([
    [0, 16385],
    [0, 3617],
  ])
  const message = (channel: number, of: string) =>
    socket.onmessage({ data: new Uint8Array([channel, ...new TextEncoder().encode(of)]).buffer })
  message(1, 'out')
  message(2, 'err')
  message(
    3,
    JSON.stringify({ status: 'Failure', details: { causes: [{ reason: 'ExitCode', message: '3' }] } }),
  )
  socket.onclose()
  await settled()
  expect(output).toEqual(['out', 'err'])
  expect(words).toBe('The command has ended with exit code 3.')
  vi.unstubAllGlobals()
})

test('a socket that is refused says why', async () => {
  const socket = { readyState: 3, close: () => undefined } as unknown as WebSocket & { onclose: () => void }
  vi.stubGlobal('WebSocket', { OPEN: 1 })
  vi.stubGlobal('window', { location: { host: 'hub' } })
  let words = ''
  new Exec(
    async () => {
      throw new ConnectError('a shell needs role operator', Code.PermissionDenied)
    },
    'edge-1',
    '/exec',
    { onOutput: () => undefined, onEnd: (w) => (words = w) },
    () => socket,
  )
  socket.onclose()
  await settled()
  expect(words).toBe('a shell needs role operator')
  vi.unstubAllGlobals()
})

test('what a cluster made of objects hangs below them', () => {
  const table = (columns: string[], ...rows: [string, string, ...string[]][]) => ({
    columnDefinitions: columns.map((name) => ({ name, type: 'string', priority: 0, description: '' })),
    rows: rows.map(([owner, ...cells]) => {
      const [kind = '', name = ''] = owner.split('/')
      const ownerReferences = [
        { kind: 'Rival', name: 'r' },
        { kind, name, controller: true },
      ]
      return { cells, object: { metadata: { name: cells[0] ?? '', namespace: 'shop', ownerReferences } } }
    }),
  })
  const sets = table(
    ['Name', 'Desired', 'Current', 'Ready'],
    ['Deployment/web', 'web-7d9', '2', '2', '1'],
    ['Deployment/web', 'web-old', '0', '0', '0'],
  )
  const pods = table(
    ['Name', 'Ready', 'Status', 'Restarts'],
    ['ReplicaSet/web-7d9', 'web-7d9-b', '0/1', 'CrashLoopBackOff', '14 (4m ago)'],
    ['ReplicaSet/web-7d9', 'web-7d9-a', '1/1', 'Running', '0'],
    ['Job/migrate', 'migrate-x', '0/1', 'Completed', '0'],
    ['DaemonSet/log', 'log-x', '0/1', 'Init:0/2', '0'],
  )
  const at = { group: '', namespace: 'shop', cut: false }
  const of = owners([
    { ...at, kind: 'ReplicaSet', table: sets },
    { ...at, kind: 'Pod', table: pods },
  ])
  const below = (kind: string, name: string) =>
    of.get(`${kind}/shop/${name}`)?.map((o) => [o.name, o.state, o.says])
  expect(below('Deployment', 'web')).toEqual([['web-7d9', 'progressing', '1 of 2 ready']])
  expect(of.get('Deployment/shop/web')?.[0]?.below.map((o) => [o.name, o.state, o.says])).toEqual([
    ['web-7d9-a', 'healthy', 'Running, 1/1 ready'],
    ['web-7d9-b', 'degraded', 'CrashLoopBackOff, 0/1 ready, 14 restarts'],
  ])
  expect(below('Job', 'migrate')).toEqual([['migrate-x', 'healthy', 'Completed, 0/1 ready']])
  expect(below('DaemonSet', 'log')?.[0]?.[1]).toBe('progressing')
})

test('of each namespace the lists are read once, and of kinds that make nothing none', () => {
  const object = (kind: string, namespace: string, name = 'x') => ({ kind, namespace, name })
  const objects = [
    object('Deployment', 'a'),
    object('Deployment', 'a', 'y'),
    object('Job', 'b'),
    object('ConfigMap', 'c'),
  ]
  expect(listsFor(objects)).toEqual(['Pod/a', 'Pod/b', 'ReplicaSet/a'])
  expect(listsFor([object('ConfigMap', 'c')])).toEqual([])
})

test('a list that goes on is told, and one that is refused fails', async () => {
  const asked: string[] = []
  const ask: Ask = async (path) => {
    asked.push(path)
    return new Response(JSON.stringify({ metadata: { continue: 'more' }, rows: [] }))
  }
  expect((await readOwned(ask, ['Pod/a'])).cut).toEqual(['Pods of namespace a'])
  expect(asked).toEqual(['/api/v1/namespaces/a/pods?limit=500&includeObject=Metadata'])
  await expect(readOwned(() => Promise.reject(new Error('no')), ['Pod/a'])).rejects.toThrow('no')
})

test('a change that no answer comes to ends, and its outcome is not made up', async () => {
  vi.useFakeTimers()
  const sent: (RequestInit | undefined)[] = []
  vi.stubGlobal('fetch', (_: string, init?: RequestInit) => {
    sent.push(init)
    return new Promise((_, fails) =>
      init?.signal?.addEventListener('abort', () => fails(init.signal?.reason)),
    )
  })
  try {
    const deleted = expect(askOf('edge-1')('/api/v1/pods/a', { method: 'DELETE' })).rejects.toThrow(
      'is not known: look before you try again',
    )
    await vi.advanceTimersByTimeAsync(70_000)
    await deleted
    void askOf('edge-1')('/api/v1/pods?watch=1')
    expect(sent.map((init) => init?.signal === undefined)).toEqual([false, true])
    expect(vi.getTimerCount()).toBe(0)
  } finally {
    vi.useRealTimers()
    vi.unstubAllGlobals()
  }
})
