import type { ClusterObject } from '../../gen/fairlead/console/v1/object_service_pb'
import { Phase, type ServiceReport } from '../../gen/fairlead/delivery/v1/delivery_pb'
import { healthState, type State, worst, worstFirst } from '../../state/states'
import { amount } from '../../ui/text'

// The hub syncs so many objects by name at once: max_items of RequestSyncRequest.only.
export const mostAtOnce = 64

// How a sync names an object.
export const syncedAs = (o: { kind: string; namespace: string; name: string } | undefined) =>
  [o?.kind, o?.namespace, o?.name].filter(Boolean).join('/')

// Where the explorer shows an object, which it finds by its kind.
export const explored = (
  cluster: string,
  o: { group: string; kind: string; namespace: string; name: string } | undefined,
) =>
  `/cluster/${cluster}/explore?${new URLSearchParams({ kind: `${o?.kind}.${o?.group}`, obj: o?.namespace ? `${o.namespace}/${o.name}` : (o?.name ?? '') })}`

export type Group = { kind: string; list: ClusterObject[]; worst: State }

const stateOf = (o: ClusterObject): State => healthState[o.report?.health ?? ''] ?? 'unknown'

function titleOf({ object: o }: ClusterObject, by: string): string {
  if (by === 'namespace') return `${o?.namespace || 'no namespace'} · ${o?.kind ?? ''}`
  return by === 'wave' ? `Wave ${o?.wave ?? 0}` : (o?.kind ?? '')
}

// Objects by kind, in the order in which they come.
export function groupsOf(objects: ClusterObject[], by = 'kind'): Group[] {
  const kinds = new Map<string, ClusterObject[]>()
  for (const o of objects) {
    const kind = titleOf(o, by)
    const list = kinds.get(kind)
    if (list) list.push(o)
    else kinds.set(kind, [o])
  }
  return [...kinds].map(([kind, list]) => ({ kind, list, worst: worst(list.map(stateOf)) ?? 'healthy' }))
}

// Objects by kind, the kinds and within them the objects that are worst first.
export function grouped(objects: ClusterObject[], by = 'kind'): Group[] {
  const rank = (s: State) => worstFirst.indexOf(s)
  return groupsOf(objects, by)
    .map((g) => ({ ...g, list: g.list.toSorted((a, b) => rank(stateOf(a)) - rank(stateOf(b))) }))
    .sort(
      (a, b) => rank(a.worst) - rank(b.worst) || a.kind.localeCompare(b.kind, undefined, { numeric: true }),
    )
}

// untroubled is what a report says that names no object: all is well only where the cluster says so.
export function untroubled(report: ServiceReport): string {
  if (report.phase === Phase.HEALTHY)
    return `${amount(report.objectsTotal, 'object')}, healthy and as Git says.`
  if (report.objectsTotal === 0) return 'Nothing of it is applied yet.'
  return `${amount(report.objectsTotal, 'object')}, of which none is said to be unwell.`
}
