import type { MessageInitShape } from '@bufbuild/protobuf'
import type { Lever, Service } from '../../gen/fairlead/console/v1/resources_pb'
import type {
  HoldServiceRequestSchema,
  PinServiceRequestSchema,
  ResumeServiceRequestSchema,
} from '../../gen/fairlead/console/v1/sync_service_pb'
import { SyncMode } from '../../gen/fairlead/delivery/v1/options_pb'

export type Hub = {
  holdService: (r: MessageInitShape<typeof HoldServiceRequestSchema>) => Promise<unknown>
  resumeService: (r: MessageInitShape<typeof ResumeServiceRequestSchema>) => Promise<unknown>
  pinService: (r: MessageInitShape<typeof PinServiceRequestSchema>) => Promise<unknown>
}

// How a lever goes back to where it was: `of` is the service as it was before. What files say can't be put back by a lever, nor can a rollback.
export function undoOf(verb: string, of: Service, hub: Hub): (() => Promise<unknown>) | undefined {
  const name = of.metadata?.name ?? ''
  const { mode, pin } = of.levers ?? {}
  switch (verb) {
    case 'Hold':
      return () => hub.resumeService({ name })
    case 'Pin':
      return () => hub.pinService({ name, commit: '', reason: 'undone' })
    case 'Resume':
      if (!mode?.reason || mode.mode <= SyncMode.AUTO) return undefined
      return () => hub.holdService({ name, mode: mode.mode, reason: mode.reason, ...until(mode) })
    case 'Unpin':
      if (!pin?.commit || pin.deployment) return undefined
      return () =>
        hub.pinService({
          name,
          commit: pin.commit,
          reason: pin.reason,
          untilNext: pin.unpinAfter !== '',
          ...until(pin),
        })
    default:
      return undefined
  }
}

const until = ({ untilTime }: Pick<Lever, 'untilTime'>) => (untilTime ? { untilTime } : {})
