import { timestampMs } from '@bufbuild/protobuf/wkt'
import { createClient, type Transport } from '@connectrpc/connect'
import { AccessService } from '../gen/fairlead/console/v1/access_service_pb'
import { Kind } from '../gen/fairlead/console/v1/catalog_service_pb'
import { ClusterService } from '../gen/fairlead/console/v1/cluster_service_pb'
import { LiveService } from '../gen/fairlead/console/v1/live_service_pb'
import { type ClusterObject, ObjectService } from '../gen/fairlead/console/v1/object_service_pb'
import type { Service } from '../gen/fairlead/console/v1/resources_pb'
import { RevisionService } from '../gen/fairlead/console/v1/revision_service_pb'
import { ServiceService } from '../gen/fairlead/console/v1/service_service_pb'
import type { ManagedObject } from '../gen/fairlead/delivery/v1/detail_pb'
import { DeletePolicy } from '../gen/fairlead/delivery/v1/options_pb'
import { hubNow } from '../hub/clock'
import { quote } from '../hub/filter'
import { transport } from '../hub/transport'
import { age } from '../live/ages'
import { type Loss, lossOf } from './deletion'
import { detach, knowsOrphan } from './detach'
import { amount } from './text'

// What goes with a service, as `fairlead delete service` shows it: what its cluster told last, how old that is, and whether the cluster hears of it now.
export async function lossOfService(
  of: Service,
  at: Transport = transport,
  now: () => number = hubNow,
): Promise<Loss> {
  const cluster = of.spec?.cluster ?? ''
  if (of.spec?.catalog) return { says: ['The hub says next what of the catalog goes with it.'], grave: false }
  const name = of.metadata?.name ?? ''
  const isOrphan = of.spec?.sync?.onDelete === DeletePolicy.ORPHAN
  const history = createClient(RevisionService, at)
  const [told, isAway, keepsAll] = await Promise.all([
    objectsOf(name, at),
    away(cluster, at),
    isOrphan && knowsOrphan(of, history),
  ])
  const objects = told.flatMap(({ object }): ManagedObject[] => (object ? [object] : []))
  const times = told.flatMap(({ observedTime }) => (observedTime ? [timestampMs(observedTime)] : []))
  const asOf =
    times.length > 0 ? [`Cluster ${cluster} told of its objects ${age(now() - Math.min(...times))} ago.`] : []
  if (keepsAll)
    return {
      says: [
        ...(isAway
          ? [
              `Cluster ${cluster} is not connected: its objects have the mark of the service until it is back.`,
            ]
          : []),
        ...asOf,
        `Cluster ${cluster} keeps ${amount(objects.length, 'object')}: spec.sync.onDelete is orphan.`,
      ],
      grave: false,
    }
  const loss = lossOf(objects, cluster)
  const says = [
    ...(isAway ? [`Cluster ${cluster} is not connected: nothing is deleted there until it is back.`] : []),
    ...asOf,
    ...(isOrphan
      ? [`spec.sync.onDelete is orphan, and cluster ${cluster} has not reported yet that it knows.`]
      : []),
    ...loss.says,
  ]
  if (objects.length === 0 && !isOrphan) return { ...loss, says }
  const kept = objects.length > 0 ? amount(objects.length, 'object') : 'what it has of it'
  const keeps = `Cluster ${cluster} keeps ${kept}, without the mark of the service.`
  return {
    ...loss,
    says,
    keep: {
      choice: 'Leave its objects in the cluster',
      says: isAway
        ? `${keeps} It is not connected: unless it is back within two minutes the service is not deleted, and has spec.sync.onDelete: orphan.`
        : keeps,
      waits: `Waiting until cluster ${cluster} knows that the objects stay. If you close this, the service is not deleted, and has spec.sync.onDelete: orphan.`,
      first: (signal) => detach(name, signal, { ...createClient(ServiceService, at), ...history }),
    },
  }
}

async function objectsOf(service: string, at: Transport): Promise<ClusterObject[]> {
  const hub = createClient(ObjectService, at)
  const objects: ClusterObject[] = []
  let pageToken = ''
  do {
    const page = await hub.listObjects({ service, pageSize: 1000, pageToken })
    objects.push(...page.objects)
    pageToken = page.nextPageToken
  } while (pageToken !== '')
  return objects
}

// Whether a cluster is away, as far as the person may know.
async function away(name: string, at: Transport): Promise<boolean> {
  try {
    const { cluster } = await createClient(ClusterService, at).getCluster({ name })
    return cluster !== undefined && !cluster.status?.connected
  } catch {
    return false
  }
}

// Whether the hub shows the person all that there is. Unknown: it does not.
export async function seesAll(at: Transport = transport): Promise<boolean> {
  try {
    return (await createClient(AccessService, at).getCaller({})).administrator
  } catch {
    return false
  }
}

// What it means that a cluster leaves the catalog.
export async function lossOfCluster(name: string, at: Transport = transport): Promise<Loss> {
  const [{ counts }, all] = await Promise.all([
    createClient(LiveService, at).countResources({ kind: Kind.SERVICE, filter: `cluster = ${quote(name)}` }),
    seesAll(at),
  ])
  const services = amount(
    counts.reduce((sum, c) => sum + c.count, 0),
    'service',
  )
  return {
    says: [
      'Its agent loses its access for good, and nobody reaches the cluster through the tunnel any more.',
      `What is applied there ${all ? `of its ${services} ` : ''}stays, and nothing new is delivered until an agent joins with a new join token.`,
      ...(all ? [] : [`You may see ${services} of the cluster. If it has others, the same holds for them.`]),
    ],
    grave: true,
  }
}
