import type { ManagedObject } from '../gen/fairlead/delivery/v1/detail_pb'
import { amount } from './text'

// What goes with a resource. grave: a person types its name first. keep: how what would be lost stays where it is instead, by what is done first.
export type Loss = {
  says: string[]
  grave: boolean
  keep?: { choice: string; says: string; waits: string; first: (signal: AbortSignal) => Promise<unknown> }
}

// More objects than these are a loss that nobody makes by a slip.
const few = 10

// What a cluster loses with a service: CRDs and namespaces, which take others along, by name, and the others as a count of each kind.
export function lossOf(objects: Pick<ManagedObject, 'group' | 'kind' | 'name'>[], cluster: string): Loss {
  if (objects.length === 0)
    return { says: [`Cluster ${cluster} has told of no objects of it.`], grave: false }
  const says: string[] = []
  const counts = new Map<string, number>()
  for (const o of objects) {
    if (o.kind === 'CustomResourceDefinition' && o.group === 'apiextensions.k8s.io')
      says.push(`CustomResourceDefinition ${o.name}, with all resources of that kind`)
    else if (o.kind === 'Namespace' && o.group === '')
      says.push(`Namespace ${o.name}, with everything that is in it`)
    else counts.set(o.kind, (counts.get(o.kind) ?? 0) + 1)
  }
  const grave = says.length > 0 || objects.length > few
  for (const [kind, n] of [...counts].sort()) says.push(`${n.toLocaleString()} ${kind}`)
  return { says: [`Cluster ${cluster} loses ${amount(objects.length, 'object')}:`, ...says], grave }
}
