import { amount } from '../ui/text'
import { pathOf } from './kinds'
import { type Ask, json } from './request'
import type { Column, Metadata } from './table'

// An object that a controller made for one of a service, and those that were made for it.
export type Owned = {
  group: string
  kind: string
  namespace: string
  name: string
  says: string
  state: 'healthy' | 'progressing' | 'degraded' | 'failed'
  below: Owned[]
}

type Named = { kind: string; namespace: string; name: string }
type Read = { columnDefinitions?: Column[]; rows?: { cells: unknown[]; object?: { metadata?: Metadata } }[] }
type List = { group: string; kind: string; namespace: string; table: Read; cut: boolean }

// What is read of a kind in a namespace, at most, and of how many namespaces.
const most = 500
const mostNamespaces = 20

const made = {
  ReplicaSet: { group: 'apps', version: 'v1', plural: 'replicasets' },
  Job: { group: 'batch', version: 'v1', plural: 'jobs' },
  Pod: { group: '', version: 'v1', plural: 'pods' },
}
type Made = keyof typeof made

// Which kinds of objects a controller makes, and those make.
const makes: Record<string, Made[]> = {
  Deployment: ['ReplicaSet', 'Pod'],
  CronJob: ['Job', 'Pod'],
  ReplicaSet: ['Pod'],
  StatefulSet: ['Pod'],
  DaemonSet: ['Pod'],
  Job: ['Pod'],
}

export const key = (of: Named) => `${of.kind}/${of.namespace}/${of.name}`

// The lists to read for the objects of a service, each once: KIND/NAMESPACE.
export function listsFor(objects: Named[]): string[] {
  const namespaces = [...new Set(objects.filter((o) => makes[o.kind]).map((o) => o.namespace))].sort()
  const wanted = objects
    .filter((o) => namespaces.slice(0, mostNamespaces).includes(o.namespace))
    .flatMap((o) => (makes[o.kind] ?? []).map((kind) => `${kind}/${o.namespace}`))
  return [...new Set(wanted)].sort()
}

// What controllers made, by the key of the object that they made it for, and the lists of which only the beginning was read.
export async function readOwned(ask: Ask, lists: string[]) {
  const read = await Promise.all(
    lists.map(async (list): Promise<List> => {
      const [kind = '', namespace = ''] = list.split('/')
      const of = made[kind as Made]
      const accept = 'application/json;as=Table;v=v1;g=meta.k8s.io'
      const path = `${pathOf(of, namespace)}?limit=${most}&includeObject=Metadata`
      const table = await json<Read & { metadata?: { continue?: string } }>(
        ask(path, { headers: { Accept: accept } }),
      )
      return { group: of.group, kind, namespace, table, cut: Boolean(table.metadata?.continue) }
    }),
  )
  return {
    owned: owners(read),
    cut: read.filter((l) => l.cut).map((l) => `${l.kind}s of namespace ${l.namespace}`),
  }
}

export function owners(lists: List[]): Map<string, Owned[]> {
  const below = new Map<string, Owned[]>()
  const at = (owner: string) => {
    const list = below.get(owner) ?? []
    below.set(owner, list)
    return list
  }
  for (const { group, kind, table } of lists) {
    const columns = table.columnDefinitions ?? []
    for (const { cells, object } of table.rows ?? []) {
      const { name = '', namespace = '', ownerReferences = [] } = object?.metadata ?? {}
      const controller = ownerReferences.find((o) => o.controller)
      const cell = (column: string) => String(cells[columns.findIndex((c) => c.name === column)] ?? '')
      const told = controller && says(kind, cell)
      if (!told) continue
      at(key({ ...controller, namespace })).push({
        group,
        kind,
        namespace,
        name,
        ...told,
        below: at(key({ kind, namespace, name })),
      })
    }
  }
  for (const list of below.values()) list.sort((a, b) => a.name.localeCompare(b.name))
  return below
}

const waits = /^(Pending|ContainerCreating|PodInitializing|Terminating|Init:\d+\/\d+)$/

// Nothing is said of ReplicaSets of earlier revisions.
function says(kind: string, cell: (column: string) => string): Pick<Owned, 'says' | 'state'> | undefined {
  if (kind === 'ReplicaSet') {
    const [desired, current, ready] = [cell('Desired'), cell('Current'), cell('Ready')]
    if (desired === '0' && current === '0') return undefined
    return { says: `${ready} of ${desired} ready`, state: ready === desired ? 'healthy' : 'progressing' }
  }
  const status = cell('Status')
  if (kind === 'Job') {
    const state = { Complete: 'healthy', SuccessCriteriaMet: 'healthy', Failed: 'failed' } as const
    return {
      says: `${status} ${cell('Completions')}`.trim(),
      state: state[status as keyof typeof state] ?? 'progressing',
    }
  }
  const [ready, all] = cell('Ready').split('/')
  const restarts = Number.parseInt(cell('Restarts'), 10)
  return {
    says: `${status}, ${cell('Ready')} ready${restarts > 0 ? `, ${amount(restarts, 'restart')}` : ''}`,
    state:
      status === 'Completed' || (status === 'Running' && ready === all)
        ? 'healthy'
        : status === 'Running' || waits.test(status)
          ? 'progressing'
          : 'degraded',
  }
}
