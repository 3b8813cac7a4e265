import { create, type MessageInitShape } from '@bufbuild/protobuf'
import { Code, ConnectError } from '@connectrpc/connect'
import { QueryClient, QueryObserver } from '@tanstack/react-query'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { AlertService } from '../gen/fairlead/console/v1/alert_service_pb'
import { Kind } from '../gen/fairlead/console/v1/catalog_service_pb'
import { ClusterService } from '../gen/fairlead/console/v1/cluster_service_pb'
import {
  ClusterViewService,
  type GetClusterViewResponse,
} from '../gen/fairlead/console/v1/cluster_view_service_pb'
import { EventService, type ListEventsResponse } from '../gen/fairlead/console/v1/event_service_pb'
import {
  type CountResourcesResponse,
  LiveService,
  type Query,
  type WatchQueriesResponse,
  WatchQueriesResponseSchema,
} from '../gen/fairlead/console/v1/live_service_pb'
import { ObjectService } from '../gen/fairlead/console/v1/object_service_pb'
import {
  type GetServiceResponse,
  type ListServicesResponse,
  ServiceService,
} from '../gen/fairlead/console/v1/service_service_pb'
import { ViewSetService } from '../gen/fairlead/console/v1/view_set_service_pb'
import { answerOf } from '../live/answers'
import { freshness } from '../live/asked'
import { Stream } from '../live/stream'
import { tell } from '../live/tell'

const message = (m: MessageInitShape<typeof WatchQueriesResponseSchema>) =>
  create(WatchQueriesResponseSchema, m)
const service = (name: string, version: bigint, labels: Record<string, string> = {}) => ({
  version,
  resource: { resource: { case: 'service' as const, value: { metadata: { name, labels } } } },
})
const names = (list: unknown) => (list as ListServicesResponse).services.map((s) => s.metadata?.name)

describe('an answer is put together from what the stream tells', () => {
  test('of a list', () => {
    const answer = answerOf(ServiceService.method.listServices, { filter: 'state >= degraded', pageSize: 2 })
    const query = answer?.query('q')
    expect(query?.query).toMatchObject({
      case: 'list',
      value: { kind: Kind.SERVICE, filter: 'state >= degraded' },
    })
    const list = (value: object) => message({ event: { case: 'list', value } })
    expect(
      names(
        answer?.take(list({ names: { names: ['a', 'b'] }, resources: [service('a', 1n), service('b', 2n)] })),
      ),
    ).toEqual(['a', 'b'])
    // One changes in its place.
    const changed = answer?.take(
      list({ resources: [service('a', 3n, { env: 'prod' })] }),
    ) as ListServicesResponse
    expect(names(changed)).toEqual(['a', 'b'])
    expect(changed.services[0]?.metadata?.labels).toEqual({ env: 'prod' })
    // One enters, one leaves.
    const moved = answer?.take(list({ names: { names: ['c', 'a'] }, resources: [service('c', 4n)] }))
    expect(names(moved)).toEqual(['c', 'a'])
    expect(answer?.query('q').known).toMatchObject([
      { name: 'c', version: 4n },
      { name: 'a', version: 3n },
    ])
  })
  test('of a list whose mask leaves the names out', () => {
    const of = (paths: string[]) =>
      answerOf(ClusterService.method.listClusters, { readMask: { paths } })?.query('q').query.value
    expect(of(['metadata.labels'])).toMatchObject({
      readMask: { paths: ['metadata.name', 'metadata.labels'] },
    })
    expect(of(['metadata'])).toMatchObject({ readMask: { paths: ['metadata'] } })
    expect(answerOf(ClusterService.method.listClusters, {})?.query('q').query.value).not.toHaveProperty(
      'readMask.paths',
    )
  })
  test('but not of kinds whose status depends on who asks', () => {
    expect(answerOf(ViewSetService.method.listViewSets, {})).toBeUndefined()
    expect(answerOf(AlertService.method.listAlerts, {})).toBeUndefined()
  })
  test('of one resource, and of one that is not there', () => {
    const answer = answerOf(ServiceService.method.getService, { name: 'web' })
    expect(answer?.query('q').query.value).toMatchObject({ filter: 'name = web', pageSize: 1 })
    const got = answer?.take(
      message({
        event: { case: 'list', value: { names: { names: ['web'] }, resources: [service('web', 1n)] } },
      }),
    ) as GetServiceResponse
    expect(got.service?.metadata?.name).toBe('web')
    expect(
      answer?.take(message({ event: { case: 'list', value: { names: { names: [] } } } })),
    ).toBeUndefined()
  })
  test('of events, the newest first', () => {
    const answer = answerOf(EventService.method.listEvents, { filter: '', pageSize: 2 })
    const tell = (value: object) =>
      (
        answer?.take(message({ event: { case: 'events', value } })) as ListEventsResponse | undefined
      )?.events.map((e) => e.id)
    expect(
      tell({ whole: true, events: [{ id: '2' }, { id: '1' }], nextPageToken: 't', resumeToken: '2' }),
    ).toEqual(['2', '1'])
    expect(tell({ events: [{ id: '3' }, { id: '4' }], resumeToken: '4' })).toEqual(['4', '3', '2', '1'])
    expect(answer?.query('q').resumeToken).toBe('4')
  })
  test('of the view of a cluster, and of several', () => {
    const answer = answerOf(ClusterViewService.method.getClusterView, { cluster: 'edge-1' })
    expect(answer?.query('q').query).toMatchObject({ case: 'view', value: { cluster: 'edge-1' } })
    const view = message({
      event: { case: 'view', value: { view: { cluster: 'edge-1', figures: { 'pods.total': 4n } } } },
    })
    const got = answer?.take(view) as GetClusterViewResponse
    expect(got.view?.figures['pods.total']).toBe(4n)
    const list = answerOf(ClusterViewService.method.listClusterViews, { groupBy: ['labels.env'] })
    expect(list?.query('q').query).toMatchObject({ case: 'views', value: { groupBy: ['labels.env'] } })
    expect(list?.take(view)).toBeUndefined()
  })
  test('of counts, of which later only changes come', () => {
    const answer = answerOf(LiveService.method.countResources, { kind: Kind.SERVICE, groupBy: ['state'] })
    expect(answer?.query('q').onlyChanges).toBe(true)
    const take = (event: object) =>
      ((answer ?? expect.fail()).take(message({ event } as never)) as CountResourcesResponse).counts.map(
        ({ values, count }) => `${values} ${count}`,
      )
    const of = (...counts: [string, number][]) => ({
      counts: counts.map(([value, count]) => ({ values: [value], count })),
    })
    expect(take({ case: 'counts', value: of(['failed', 1], ['pending', 3]) })).toEqual([
      'failed 1',
      'pending 3',
    ])
    expect(take({ case: 'countChanges', value: of(['failed', 0], ['healthy', 1]) })).toEqual([
      'healthy 1',
      'pending 3',
    ])
    expect(take({ case: 'counts', value: of(['failed', 2]) })).toEqual(['failed 2'])
  })
  test('of what the stream does not carry there is none', () => {
    expect(answerOf(ObjectService.method.getServiceDiff, { name: 'web' })).toBeUndefined()
    expect(answerOf(EventService.method.listEvents, { pageToken: '7' })).toBeUndefined()
    expect(answerOf(LiveService.method.countResources, { kind: Kind.SERVICE })).toBeDefined()
    expect(answerOf(ClusterService.method.listClusters, {})).toBeDefined()
  })
})

// A console that tells what a test has it tell.
class Told {
  queries: Query[]
  aborted = false
  #waiting: ((r: IteratorResult<WatchQueriesResponse>) => void) | undefined
  #fail: ((e: unknown) => void) | undefined
  constructor(queries: Query[], signal: AbortSignal) {
    this.queries = queries
    signal.addEventListener('abort', () => {
      this.aborted = true
      this.#fail?.(new Error('aborted'))
    })
  }
  async tell(m: MessageInitShape<typeof WatchQueriesResponseSchema>) {
    this.#waiting?.({ done: false, value: message(m) })
    await vi.advanceTimersByTimeAsync(0)
  }
  async break(e: unknown = new TypeError('Failed to fetch')) {
    this.#fail?.(e)
    await vi.advanceTimersByTimeAsync(0)
  }
  [Symbol.asyncIterator]() {
    return {
      next: () =>
        new Promise<IteratorResult<WatchQueriesResponse>>((resolve, reject) => {
          this.#waiting = resolve
          this.#fail = reject
        }),
    }
  }
}

describe('the stream of a tab', () => {
  let opened: Told[]
  let stream: Stream
  const heartbeat = { event: { case: 'heartbeat' as const, value: {} } }
  const make = () => answerOf(LiveService.method.countResources, { kind: Kind.SERVICE }) ?? expect.fail()
  beforeEach(() => {
    vi.useFakeTimers()
    opened = []
    stream = new Stream((request, signal) => {
      const told = new Told(request.queries as Query[], signal)
      opened.push(told)
      return told as AsyncIterable<WatchQueriesResponse>
    })
  })
  afterEach(() => {
    stream.pause(true)
    vi.useRealTimers()
  })
  const last = () => opened.at(-1) ?? expect.fail()

  test('carries all that a page asks, and is live from its first heartbeat on', async () => {
    const told: unknown[] = []
    stream.want('a', make, (data) => told.push(data))
    stream.want('b', make, () => {})
    await vi.advanceTimersByTimeAsync(100)
    expect(opened.length).toBe(1)
    expect(last().queries.map((q) => q.name)).toEqual(['a', 'b'])
    await last().tell({ name: 'a', event: { case: 'counts', value: { counts: [{ count: 3 }] } } })
    expect(told).toMatchObject([{ counts: [{ count: 3 }] }])
    expect(stream.carries('a')).toBe(false)
    await last().tell(heartbeat)
    expect(stream.carries('a')).toBe(true)
    expect(stream.carries('b')).toBe(false)
  })
  test('closes the old one when the next one stands', async () => {
    const leave = stream.want('a', make, () => {})
    await vi.advanceTimersByTimeAsync(100)
    await last().tell(heartbeat)
    stream.want('b', make, () => {})
    leave()
    await vi.advanceTimersByTimeAsync(200)
    expect(last().queries.map((q) => q.name)).toEqual(['b'])
    expect(opened[0]?.aborted).toBe(false)
    await last().tell(heartbeat)
    expect(opened[0]?.aborted).toBe(true)
    expect(stream.status.live).toBe(true)
  })
  test('that breaks says so at once, and is tried again', async () => {
    stream.want('a', make, () => {})
    await vi.advanceTimersByTimeAsync(100)
    await last().tell(heartbeat)
    await last().break()
    expect(stream.status).toMatchObject({ live: false, failure: { away: true } })
    expect(stream.status.nextTry).toBeGreaterThan(Date.now())
    await vi.advanceTimersByTimeAsync(10_000)
    expect(opened.length).toBe(2)
    await last().tell(heartbeat)
    expect(stream.status.live).toBe(true)
  })
  test('that is silent for 25 s is taken as broken', async () => {
    stream.want('a', make, () => {})
    await vi.advanceTimersByTimeAsync(100)
    await last().tell(heartbeat)
    await vi.advanceTimersByTimeAsync(24_000)
    expect(stream.status.live).toBe(true)
    await vi.advanceTimersByTimeAsync(2_000)
    expect(stream.status.live).toBe(false)
  })
  test('of a tab that nobody sees is closed', async () => {
    stream.want('a', make, () => {})
    await vi.advanceTimersByTimeAsync(100)
    await last().tell(heartbeat)
    stream.pause(true)
    expect(last().aborted).toBe(true)
    await vi.advanceTimersByTimeAsync(60_000)
    expect(opened.length).toBe(1)
    stream.pause(false)
    await vi.advanceTimersByTimeAsync(100)
    expect(opened.length).toBe(2)
  })
  test('of other rights begins with nothing of what the one before told', async () => {
    const shown: number[] = []
    const events = () => answerOf(EventService.method.listEvents, { pageSize: 100 }) ?? expect.fail()
    stream.want('events', events, (data) => shown.push((data as ListEventsResponse).events.length))
    await vi.advanceTimersByTimeAsync(100)
    const value = { whole: true, events: [{ id: '1' }], resumeToken: '7' }
    await last().tell({ name: 'events', event: { case: 'events', value } })
    await last().tell(heartbeat)
    stream.forget()
    expect(opened[0]?.aborted).toBe(true)
    expect(stream.carries('events')).toBe(false)
    await vi.advanceTimersByTimeAsync(100)
    expect(opened.length).toBe(2)
    expect(last().queries[0]).toMatchObject({ name: 'events', resumeToken: '' })
    await last().tell({ name: 'events', event: { case: 'events', value: { events: [{ id: '2' }] } } })
    expect(shown).toEqual([1, 1])
  })
  test('leaves out what an older console refuses', async () => {
    const view = answerOf(ClusterViewService.method.getClusterView, { cluster: 'edge-1' })
    stream.want('a', make, () => {})
    stream.want(
      'view',
      () => view ?? expect.fail(),
      () => {},
    )
    await vi.advanceTimersByTimeAsync(100)
    expect(last().queries.map((q) => q.name)).toEqual(['a', 'view'])
    await last().break(
      new ConnectError('queries[1].query: exactly one field is required', Code.InvalidArgument),
    )
    await vi.advanceTimersByTimeAsync(1)
    expect(last().queries.map((q) => q.name)).toEqual(['a'])
    await last().tell({ name: 'a', event: { case: 'counts', value: {} } })
    await last().tell(heartbeat)
    expect(stream.carries('a')).toBe(true)
    expect(stream.carries('view')).toBe(false)
  })
  test('asks a console that may be another one for all again', async () => {
    const view = answerOf(ClusterViewService.method.getClusterView, { cluster: 'edge-1' })
    stream.want('a', make, () => {})
    stream.want(
      'view',
      () => view ?? expect.fail(),
      () => {},
    )
    await vi.advanceTimersByTimeAsync(100)
    await last().break(new ConnectError('queries[1]', Code.InvalidArgument))
    await vi.advanceTimersByTimeAsync(1)
    // A stream that never stood is of the same console.
    await last().break()
    await vi.advanceTimersByTimeAsync(10_000)
    expect(last().queries.map((q) => q.name)).toEqual(['a'])
    await last().tell(heartbeat)
    await last().break()
    await vi.advanceTimersByTimeAsync(10_000)
    expect(last().queries.map((q) => q.name)).toEqual(['a', 'view'])
  })
  test('asks anew for events that are more than a page holds, while it stands', async () => {
    const shown: number[] = []
    const events = () => answerOf(EventService.method.listEvents, { pageSize: 100 }) ?? expect.fail()
    stream.want('events', events, (data) => shown.push((data as ListEventsResponse).events.length))
    await vi.advanceTimersByTimeAsync(100)
    const value = (of: number, whole: boolean) => ({
      whole,
      events: Array.from({ length: of }, (_, i) => ({ id: `${i}` })),
      resumeToken: '7',
    })
    await last().tell({ name: 'events', event: { case: 'events', value: value(100, true) } })
    await last().tell(heartbeat)
    await last().tell({ name: 'events', event: { case: 'events', value: value(900, false) } })
    await vi.advanceTimersByTimeAsync(1000)
    expect(opened.length).toBe(1)
    await last().tell({ name: 'events', event: { case: 'events', value: value(1, false) } })
    await vi.advanceTimersByTimeAsync(1000)
    expect(opened.length).toBe(2)
    expect(last().queries[0]).toMatchObject({ name: 'events', resumeToken: '' })
    await last().tell({ name: 'events', event: { case: 'events', value: value(100, true) } })
    await last().tell(heartbeat)
    expect(shown).toEqual([100, 1000, 1001, 100])
    expect(opened[0]?.aborted).toBe(true)
  })
  test('asks at most 16 questions; the others are polled', async () => {
    for (let i = 0; i < 20; i++) stream.want(`q${i}`, make, () => {})
    await vi.advanceTimersByTimeAsync(100)
    expect(last().queries.length).toBe(16)
  })
})

describe('what the stream tells stays', () => {
  const queryKey = ['source', 'shop']
  // A page that has an answer, and asks again: the console has answered, and the answer is on its way.
  const asking = (known?: string) => {
    const queries = new QueryClient({ defaultOptions: { queries: { retry: false } } })
    if (known) queries.setQueryData(queryKey, known)
    let answer: (a: Promise<string>) => void = () => {}
    const coming = new Promise<string>((resolve) => {
      answer = resolve
    })
    const asked = queries.fetchQuery({ queryKey, queryFn: () => coming }).catch(() => undefined)
    return { queries, asked, answer }
  }
  const stands = (queries: QueryClient) => queries.getQueryState(queryKey)
  test('when a page has asked before, and gets what was before', async () => {
    for (const known of [undefined, 'failing']) {
      const { queries, asked, answer } = asking(known)
      tell(queries, queryKey, 'ready')
      answer(Promise.resolve('failing'))
      await asked
      expect(stands(queries)).toMatchObject({ data: 'ready', status: 'success', fetchStatus: 'idle' })
    }
  })
  test('when what a page has asked before fails', async () => {
    const { queries, asked, answer } = asking('failing')
    tell(queries, queryKey, 'ready')
    answer(Promise.reject(new TypeError('Failed to fetch')))
    await asked
    expect(stands(queries)).toMatchObject({ data: 'ready', status: 'success', error: null })
  })
  test('when what a page has asked before failed: the page is fresh again', async () => {
    const { queries, asked, answer } = asking('failing')
    const page = new QueryObserver(queries, { queryKey, enabled: false })
    page.subscribe(() => undefined)
    answer(Promise.reject(new TypeError('Failed to fetch')))
    await asked
    expect(freshness([page.getCurrentResult()], Date.now()).failure?.away).toBe(true)
    tell(queries, queryKey, 'ready')
    expect(freshness([page.getCurrentResult()], Date.now())).toMatchObject({ stale: false })
    expect(freshness([page.getCurrentResult()], Date.now()).failure).toBeUndefined()
  })
  test('until a page asks again', async () => {
    const { queries } = asking()
    tell(queries, queryKey, 'ready')
    await queries.fetchQuery({ queryKey, queryFn: async () => 'newer', staleTime: 0 })
    expect(stands(queries)?.data).toBe('newer')
  })
})
