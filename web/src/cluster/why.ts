import { ConnectError } from '@connectrpc/connect'
import { type ContainerStatus, noPods, type Pod, podsOfObject, workloadOf } from './pods'
import { type Ask, json, read } from './request'

// What a cluster says about objects that are not well: the worst pod, its container, its events and its last words.
export type Finding = {
  group: string
  kind: string
  namespace: string
  name: string
  container: string
  words: string
  restarts: number
  previous: boolean // the log is of the container before the restart
  lines: string[]
  noLog: string // why there are no lines
  events: { time: string; reason: string; message: string }[]
}

export type Troubled = { group: string; kind: string; namespace: string; name: string }

// Objects whose pods are asked for.
const mostObjects = 4
const mostLines = 20
const mostEvents = 5
const mostLog = 256 << 10

export async function findingOf(ask: Ask, of: Troubled[]): Promise<Finding | undefined> {
  const workloads = of.filter((o) => workloadOf(o)).slice(0, mostObjects)
  const pods = (await Promise.all(workloads.map((o) => podsOfObject(ask, o).catch(noPods)))).flat()
  const worst = worstOf(pods)
  if (!worst) {
    const [first] = workloads.length > 0 ? workloads : of
    if (!first) return undefined
    const events = await eventsOf(ask, first)
    return {
      ...first,
      container: '',
      words: workloads.length > 0 ? 'it has no pod that is not well' : '',
      restarts: 0,
      previous: false,
      lines: [],
      noLog: '',
      events,
    }
  }
  const { pod, status } = worst
  const named = {
    group: '',
    kind: 'Pod',
    namespace: pod.metadata?.namespace ?? '',
    name: pod.metadata?.name ?? '',
  }
  const container = status?.name ?? pod.spec?.containers?.[0]?.name ?? ''
  const restarts = status?.restartCount ?? 0
  const previous = restarts > 0 && status?.state?.running === undefined
  const [log, events] = await Promise.all([
    logOf(ask, named.namespace, named.name, container, previous),
    eventsOf(ask, named),
  ])
  return { ...named, container, words: wordsOf(pod, status), restarts, previous, ...log, events }
}

const statusesOf = (p: Pod) => [
  ...(p.status?.initContainerStatuses ?? []),
  ...(p.status?.containerStatuses ?? []),
]

// How bad a container is: it fails, it restarts, it is not ready yet, or it is well.
function badness(s: ContainerStatus): number {
  const waiting = s.state?.waiting?.reason ?? ''
  if (waiting !== '' && waiting !== 'ContainerCreating' && waiting !== 'PodInitializing') return 4
  if ((s.state?.terminated?.exitCode ?? 0) !== 0) return 4
  if (s.ready) return 0
  if (s.state?.terminated) return 0 // an init container that is done
  return (s.restartCount ?? 0) > 0 ? 3 : 1
}

export function worstOf(pods: Pod[]): { pod: Pod; status: ContainerStatus | undefined } | undefined {
  let found: { pod: Pod; status: ContainerStatus | undefined; bad: number } | undefined
  for (const pod of pods) {
    let status: ContainerStatus | undefined
    let bad = pod.status?.phase === 'Failed' ? 3 : pod.status?.phase === 'Pending' ? 2 : 0
    for (const s of statusesOf(pod)) {
      const b = badness(s)
      if (b > bad || (b === bad && b > 0 && !status)) {
        bad = b
        status = s
      }
    }
    if (bad > (found?.bad ?? 0)) found = { pod, status, bad }
  }
  return found && { pod: found.pod, status: found.status }
}

export function wordsOf(pod: Pod, status: ContainerStatus | undefined): string {
  const { waiting, terminated } = status?.state ?? {}
  const before = status?.lastState?.terminated
  const parts = [
    waiting?.reason ?? terminated?.reason ?? '',
    exitOf(terminated) || exitOf(before),
    waiting?.message ?? terminated?.message ?? before?.message ?? '',
  ]
  if (!status) {
    const scheduled = pod.status?.conditions?.find((c) => c.type === 'PodScheduled' && c.status === 'False')
    parts.push(scheduled?.reason ?? pod.status?.reason ?? '', scheduled?.message ?? pod.status?.message ?? '')
  }
  return parts.filter(Boolean).join(', ') || `it is ${pod.status?.phase ?? 'not ready'}`
}

const exitOf = (of: { exitCode?: number } | undefined) =>
  of?.exitCode === undefined ? '' : `exit code ${of.exitCode}`

async function logOf(ask: Ask, namespace: string, pod: string, container: string, previous: boolean) {
  const query = new URLSearchParams({
    container,
    tailLines: String(mostLines),
    limitBytes: String(mostLog),
    ...(previous ? { previous: 'true' } : {}),
  })
  const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods/${encodeURIComponent(pod)}/log`
  try {
    const text = await read(
      await ask(`${path}?${query}`, { headers: { Accept: 'text/plain, */*' } }),
      mostLog * 2,
    )
    return { lines: text.split('\n').filter(Boolean).slice(-mostLines), noLog: '' }
  } catch (e) {
    return { lines: [], noLog: ConnectError.from(e).rawMessage }
  }
}

type Event = {
  type?: string
  reason?: string
  message?: string
  lastTimestamp?: string
  eventTime?: string
  firstTimestamp?: string
}

async function eventsOf(ask: Ask, of: Troubled): Promise<Finding['events']> {
  const fieldSelector = `involvedObject.kind=${of.kind},involvedObject.name=${of.name}`
  const query = new URLSearchParams({ fieldSelector, limit: '100' })
  try {
    const { items = [] } = await json<{ items?: Event[] }>(
      ask(`/api/v1/namespaces/${encodeURIComponent(of.namespace || 'default')}/events?${query}`),
    )
    return items
      .filter((e) => e.type === 'Warning')
      .map((e) => ({
        time: e.lastTimestamp ?? e.eventTime ?? e.firstTimestamp ?? '',
        reason: e.reason ?? '',
        message: e.message ?? '',
      }))
      .sort((a, b) => b.time.localeCompare(a.time))
      .slice(0, mostEvents)
  } catch {
    return [] // The log says what the cluster refuses.
  }
}
