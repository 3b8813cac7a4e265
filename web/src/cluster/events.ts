import { type Pod, podsOfObject, workloadOf } from './pods'
import { type Ask, json } from './request'

export type ClusterEvent = {
  involvedObject?: { uid?: string; kind?: string; namespace?: string; name?: string }
  metadata?: { uid?: string }
  type?: string
  reason?: string
  message?: string
  count?: number
  lastTimestamp?: string
  eventTime?: string
  firstTimestamp?: string
  series?: { count?: number; lastObservedTime?: string }
}

export const timeOf = (e: ClusterEvent) =>
  e.series?.lastObservedTime ?? e.lastTimestamp ?? e.eventTime ?? e.firstTimestamp ?? ''

export const newestFirst = (events: ClusterEvent[]) =>
  events.toSorted((a, b) => timeOf(b).localeCompare(timeOf(a)))

type Named = { group: string; kind: string; namespace: string; name: string }

// Bounds of what one look asks of a cluster.
const mostWorkloads = 16
const mostNamespaces = 8
const mostEvents = 500

// What a cluster tells of some objects, of the pods of their workloads and of what made those. partial: there is more than was looked at,
// or than the person may see.
export async function eventsOfObjects(
  ask: Ask,
  of: Named[],
): Promise<{ events: ClusterEvent[]; partial: boolean }> {
  const workloads = of.filter((o) => workloadOf(o))
  // A workload that is gone has no pods; what the person may not see, the events themselves say.
  const pods = (
    await Promise.all(workloads.slice(0, mostWorkloads).map((o) => podsOfObject(ask, o).catch(() => [])))
  ).flat()
  const wanted = new Set([...of.map(keyOf), ...pods.flatMap(keysOfPod)])
  // Events of what is in no namespace are in this one.
  const namespaces = [...new Set(of.map((o) => o.namespace || 'default'))]
  const asked = await Promise.allSettled(
    namespaces
      .slice(0, mostNamespaces)
      .map((n) =>
        json<{ metadata?: { continue?: string }; items?: ClusterEvent[] }>(
          ask(`/api/v1/namespaces/${encodeURIComponent(n)}/events?limit=${mostEvents}`),
        ),
      ),
  )
  const lists = asked.flatMap((a) => (a.status === 'fulfilled' ? a.value : []))
  const refused = asked.find((a) => a.status === 'rejected')
  if (refused && lists.length === 0) throw refused.reason
  return {
    events: newestFirst(
      lists.flatMap((l) => l.items ?? []).filter((e) => wanted.has(keyOf(e.involvedObject))),
    ),
    partial:
      refused !== undefined ||
      workloads.length > mostWorkloads ||
      namespaces.length > mostNamespaces ||
      lists.some((l) => l.metadata?.continue),
  }
}

const keyOf = (of: { kind?: string; namespace?: string; name?: string } | undefined) =>
  `${of?.kind} ${of?.namespace ?? ''}/${of?.name}`

function keysOfPod({ metadata }: Pod): string[] {
  const namespace = metadata?.namespace ?? ''
  const owners = metadata?.ownerReferences ?? []
  return [
    keyOf({ kind: 'Pod', namespace, name: metadata?.name ?? '' }),
    ...owners.map((o) => keyOf({ kind: o.kind ?? '', namespace, name: o.name ?? '' })),
  ]
}
