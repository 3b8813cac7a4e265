import { clone, create } from '@bufbuild/protobuf'
import { Code, ConnectError } from '@connectrpc/connect'
import { type Service, ServiceSchema } from '../gen/fairlead/console/v1/resources_pb'
import { DeletePolicy, SyncSpecSchema } from '../gen/fairlead/delivery/v1/options_pb'
import { type Clock, clock } from '../hub/clock'
import { failureOf } from '../hub/errors'
import { sentence } from './text'

// How long a cluster may take to learn that objects stay, and how often the hub is asked whether it has.
const patience = 120_000
const pause = 1_000

export type Services = {
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
      const handed = service?.status?.hub?.digest ?? ''
      if (handed !== before.status?.hub?.digest && service?.status?.cluster?.report?.digest === handed) return
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
  throw new ConnectError(`${away || 'Its cluster does not answer. '}${kept}`, Code.DeadlineExceeded)
}
