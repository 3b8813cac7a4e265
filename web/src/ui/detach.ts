import { clone, create } from '@bufbuild/protobuf'
import { Code, ConnectError } from '@connectrpc/connect'
import { Kind } from '../gen/fairlead/console/v1/catalog_service_pb'
import { type Service, ServiceSchema } from '../gen/fairlead/console/v1/resources_pb'
import type { Deployment, Revision } from '../gen/fairlead/console/v1/revision_service_pb'
import { DeletePolicy, SyncSpecSchema } from '../gen/fairlead/delivery/v1/options_pb'
import { type Clock, clock } from '../hub/clock'
import { failureOf } from '../hub/errors'
import { sentence } from './text'

// How long a cluster may take to learn that objects stay, and how often the hub is asked whether it has.
const patience = 120_000
const pause = 1_000

export type History = {
  listDeployments: (r: { service: string; pageSize: number }) => Promise<{ deployments: Deployment[] }>
  listRevisions: (r: {
    kind: Kind
    name: string
    pageSize: number
    pageToken: string
  }) => Promise<{ revisions: Revision[]; nextPageToken: string }>
}

export type Services = History & {
  getService: (r: { name: string }) => Promise<{ service?: Service | undefined }>
  updateService: (r: { service: Service }) => Promise<{ service?: Service | undefined }>
}

// The service as files say it, with objects that outlive it. Levers stand over what files say.
export function orphaned(of: Service): Service {
  const out = clone(ServiceSchema, of)
  const files = out.levers?.spec
  if (files && out.levers) {
    out.spec = files
    delete out.levers.spec
  }
  if (!out.spec) return out
  const sync = out.spec.sync ?? create(SyncSpecSchema)
  delete sync.requestTime
  sync.onDelete = DeletePolicy.ORPHAN
  out.spec.sync = sync
  return out
}

// What is said of a service that comes back as it was when it was deleted, and whose next deletion would leave its objects, too.
export const orphanSays = (of: Service | undefined): string =>
  of?.spec?.sync?.onDelete === DeletePolicy.ORPHAN
    ? 'spec.sync.onDelete: orphan, as when it was deleted: its next deletion leaves its objects in the cluster, too, unless its YAML says otherwise'
    : ''

// Whether the content that the cluster reported last says that the objects stay. The spec of now may be one that the cluster has not heard of, or
// that the hub does not deliver yet. What is not known is no.
export async function knowsOrphan(of: Service, hub: History): Promise<boolean> {
  const name = of.metadata?.name ?? ''
  const digest = of.status?.cluster?.report?.digest
  if (!digest) return false
  const { deployments } = await hub.listDeployments({ service: name, pageSize: 100 })
  const at = deployments.find((d) => d.digest === digest)?.specRevision
  if (at === undefined) return false
  let pageToken = ''
  do {
    const page = await hub.listRevisions({ kind: Kind.SERVICE, name, pageSize: 20, pageToken })
    const written = page.revisions.find((r) => r.revision <= at)
    if (written) {
      const { resource } = written.resource ?? {}
      return (
        written.revision === at &&
        resource?.case === 'service' &&
        resource.value.spec?.sync?.onDelete === DeletePolicy.ORPHAN
      )
    }
    pageToken = page.nextPageToken
  } while (pageToken !== '')
  return false
}

// Has the objects of a service stay in the cluster when it is deleted, and waits until the cluster knows, as `fairlead delete --detach` does.
export async function detach(
  name: string,
  signal: AbortSignal,
  hub: Services,
  at: Clock = clock,
): Promise<void> {
  const { service: before } = await hub.getService({ name })
  if (!before) return
  const { service: now } = await hub.updateService({ service: orphaned(before) })
  if (now?.spec?.sync?.onDelete !== DeletePolicy.ORPHAN)
    throw new ConnectError(
      `Service ${name} is rolled back, and onDelete waits behind that: unpin it first.`,
      Code.FailedPrecondition,
    )
  const kept = 'It was not deleted, and has spec.sync.onDelete: orphan now.'
  const began = at.now()
  let away = ''
  while (at.now() - began < patience) {
    try {
      const { service } = await hub.getService({ name })
      away = ''
      if (service && (await knowsOrphan(service, hub))) return
    } catch (e) {
      const failure = failureOf(e)
      if (!failure.away)
        throw new ConnectError(`${sentence(failure.message)} ${kept}`, ConnectError.from(e).code)
      away = `${sentence(failure.message)} `
    }
    await at.wait(pause, signal)
    if (signal.aborted)
      throw new ConnectError(`Nobody waits for the cluster any more. ${kept}`, Code.Canceled)
  }
  throw new ConnectError(
    `${away || 'Its cluster has not reported that the objects stay. '}${kept}`,
    Code.DeadlineExceeded,
  )
}
