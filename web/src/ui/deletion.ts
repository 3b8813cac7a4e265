import {
  PlannedAction,
  type PreviewGlobalServiceResponse,
} from '../gen/fairlead/console/v1/global_service_service_pb'
import type { ManagedObject } from '../gen/fairlead/delivery/v1/detail_pb'
import type { Consequence } from './Consequences'
import { amount, ofKind } from './text'

// What goes with a resource. grave: a person types its name first. keep: how what would be lost stays where it is instead, by what is done first.
export type Loss = {
  says: Consequence[]
  grave: boolean
  keep?: { choice: string; says: string; waits: string; first: (signal: AbortSignal) => Promise<unknown> }
}

// More objects than these are a loss that nobody makes by a slip.
const few = 10

// What a cluster loses with a service: CRDs and namespaces, which stay while something of others is in them, by name, and of each other kind how many there are and the first of them.
export function lossOf(objects: Pick<ManagedObject, 'group' | 'kind' | 'name'>[], cluster: string): Loss {
  if (objects.length === 0)
    return { says: [`Cluster ${cluster} has told of no objects of it.`], grave: false }
  const each: string[] = []
  const others = new Map<string, string[]>()
  for (const o of objects) {
    if (o.kind === 'CustomResourceDefinition' && o.group === 'apiextensions.k8s.io')
      each.push(`CustomResourceDefinition ${o.name}, unless others have resources of that kind`)
    else if (o.kind === 'Namespace' && o.group === '')
      each.push(`Namespace ${o.name}, unless something of others is in it`)
    else others.set(o.kind, [...(others.get(o.kind) ?? []), o.name])
  }
  const grave = each.length > 0 || objects.length > few
  for (const kind of [...others.keys()].sort()) each.push(ofKind(kind, (others.get(kind) ?? []).sort()))
  return { says: [{ says: `Cluster ${cluster} loses ${amount(objects.length, 'object')}:`, each }], grave }
}

// What clusters lose with the services of a global service that they do not fit any more. all: the person sees all services.
export function lossOfPlan(
  { services, deleted }: Pick<PreviewGlobalServiceResponse, 'services' | 'deleted'>,
  all: boolean,
): Loss {
  const each = services
    .filter((s) => s.action === PlannedAction.DELETE)
    .map((s) => `${s.name} at ${s.cluster}`)
  const unnamed = deleted - each.length
  if (unnamed > 0) each.push(`${amount(unnamed, 'service')} more, which the hub does not list`)
  const says = `${amount(deleted, 'cluster')} ${deleted === 1 ? 'loses' : 'lose'} the service, with its objects unless its spec.sync.onDelete is orphan:`
  const others = all
    ? []
    : [
        'Only services that you may see are counted here. If the guard holds back others, they are deleted too; without the right to delete them, nothing is deleted.',
      ]
  return { says: [{ says, each }, ...others], grave: deleted > few }
}
