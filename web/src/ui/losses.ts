import { createClient } from '@connectrpc/connect'
import { Kind } from '../gen/fairlead/console/v1/catalog_service_pb'
import { LiveService } from '../gen/fairlead/console/v1/live_service_pb'
import { ObjectService } from '../gen/fairlead/console/v1/object_service_pb'
import type { Service } from '../gen/fairlead/console/v1/resources_pb'
import { ServiceService } from '../gen/fairlead/console/v1/service_service_pb'
import type { ManagedObject } from '../gen/fairlead/delivery/v1/detail_pb'
import { DeletePolicy } from '../gen/fairlead/delivery/v1/options_pb'
import { quote } from '../hub/filter'
import { transport } from '../hub/transport'
import { type Loss, lossOf } from './deletion'
import { detach } from './detach'
import { amount } from './text'

// What goes with a service, as `fairlead delete service` shows it.
export async function lossOfService(of: Service): Promise<Loss> {
  const cluster = of.spec?.cluster ?? ''
  if (of.spec?.catalog) return { says: ['The hub says next what of the catalog goes with it.'], grave: false }
  const hub = createClient(ObjectService, transport)
  const objects: ManagedObject[] = []
  let pageToken = ''
  do {
    const page = await hub.listObjects({ service: of.metadata?.name ?? '', pageSize: 1000, pageToken })
    for (const { object } of page.objects) if (object) objects.push(object)
    pageToken = page.nextPageToken
  } while (pageToken !== '')
  if (of.spec?.sync?.onDelete === DeletePolicy.ORPHAN)
    return {
      says: [`Cluster ${cluster} keeps ${amount(objects.length, 'object')}: spec.sync.onDelete is orphan.`],
      grave: false,
    }
  const loss = lossOf(objects, cluster)
  if (objects.length === 0) return loss
  const name = of.metadata?.name ?? ''
  return {
    ...loss,
    keep: {
      choice: 'Leave its objects in the cluster',
      says: `Cluster ${cluster} keeps ${amount(objects.length, 'object')}, without the mark of the service.`,
      waits: `Waiting until cluster ${cluster} knows that the objects stay…`,
      first: (signal) => detach(name, signal, createClient(ServiceService, transport)),
    },
  }
}

// What it means that a cluster leaves the catalog.
export async function lossOfCluster(name: string): Promise<Loss> {
  const { counts } = await createClient(LiveService, transport).countResources({
    kind: Kind.SERVICE,
    filter: `cluster = ${quote(name)}`,
  })
  const services = counts.reduce((sum, c) => sum + c.count, 0)
  return {
    says: [
      'Its agent loses its access for good, and nobody reaches the cluster through the tunnel any more.',
      `What is applied there of its ${amount(services, 'service')} stays, and nothing new is delivered until an agent joins with a new join token.`,
    ],
    grave: true,
  }
}
