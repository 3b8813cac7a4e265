import { clone, equals, type MessageInitShape } from '@bufbuild/protobuf'
import { Code, ConnectError } from '@connectrpc/connect'
import { type Lever, LeverSchema, type Service } from '../gen/fairlead/console/v1/resources_pb'
import type {
  HoldServiceRequestSchema,
  PinServiceRequestSchema,
  ResumeServiceRequestSchema,
} from '../gen/fairlead/console/v1/sync_service_pb'
import { SyncMode } from '../gen/fairlead/delivery/v1/options_pb'
import { failureOf } from '../hub/errors'
import { inParallel } from '../hub/parallel'

// What the hub answers to a lever, and to a question for a service.
export type Answer = { service?: Service | undefined }

export type Hub = {
  getService: (r: { name: string }) => Promise<Answer>
  holdService: (r: MessageInitShape<typeof HoldServiceRequestSchema>) => Promise<Answer>
  resumeService: (r: MessageInitShape<typeof ResumeServiceRequestSchema>) => Promise<Answer>
  pinService: (r: MessageInitShape<typeof PinServiceRequestSchema>) => Promise<Answer>
}

// How a lever goes back to where it was: `of` is the service as it was before, and what undoes it takes the hub's answer to the lever. A lever that
// somebody else has pulled since stays. What files say can't be put back by a lever, nor can a rollback.
export function undoOf(
  verb: string,
  of: Service,
  hub: Hub,
): ((answer: Answer) => Promise<unknown>) | undefined {
  const kind = verb === 'Pin' || verb === 'Unpin' ? 'pin' : 'mode'
  const back = backOf(verb, of, hub)
  if (!back) return undefined
  return async (answer) => {
    const { service: now } = await hub.getService({ name: of.metadata?.name ?? '' })
    const lever = now?.levers?.[kind]
    if (same(lever, answer.service?.levers?.[kind])) return back()
    if (same(lever, of.levers?.[kind])) return 'It had gone back already.'
    throw new ConnectError(
      lever ? `${lever.author || 'Somebody'} has pulled it since, and it stays so.` : 'It has ended since.',
      Code.Aborted,
    )
  }
}

// The same lever, but for its time: undoing what undid it pulls it anew.
const same = (a: Lever | undefined, b: Lever | undefined) =>
  a && b ? equals(LeverSchema, timeless(a), timeless(b)) : a === b

function timeless(of: Lever): Lever {
  const out = clone(LeverSchema, of)
  delete out.sinceTime
  return out
}

function backOf(verb: string, of: Service, hub: Hub): (() => Promise<unknown>) | undefined {
  const name = of.metadata?.name ?? ''
  const { mode, pin } = of.levers ?? {}
  const isHeld = mode !== undefined && mode.mode > SyncMode.AUTO
  switch (verb) {
    case 'Hold':
    case 'Resume':
      if (isHeld)
        return mode.reason === ''
          ? undefined
          : () => hub.holdService({ name, mode: mode.mode, reason: mode.reason, ...until(mode) })
      return verb === 'Hold' ? () => hub.resumeService({ name }) : undefined
    case 'Pin':
    case 'Unpin':
      if (pin?.commit && !pin.deployment)
        return () =>
          hub.pinService({
            name,
            commit: pin.commit,
            reason: pin.reason,
            untilNext: pin.unpinAfter !== '',
            ...until(pin),
          })
      if (verb === 'Unpin' || pin || of.spec?.sync?.pin) return undefined
      return () => hub.pinService({ name, commit: '', reason: 'undone' })
    default:
      return undefined
  }
}

// Undoes a lever that was pulled for several services. What could not be undone is tried again with the next call.
export function undoAll(undos: [name: string, undo: () => Promise<unknown>][]): () => Promise<void> {
  let left = undos
  return async () => {
    const failed: [string, unknown][] = []
    await inParallel(left, 6, async ([name, undo]) => {
      try {
        await undo()
      } catch (failure) {
        failed.push([name, failure])
      }
    })
    const count = left.length
    left = left.filter(([name]) => failed.some(([of]) => of === name))
    const [first] = failed
    if (!first) return
    const { message } = failureOf(first[1])
    throw new ConnectError(
      `${failed.length} of ${count} are not undone. ${first[0]}: ${message}`,
      Code.Aborted,
    )
  }
}

const until = ({ untilTime }: Pick<Lever, 'untilTime'>) => (untilTime ? { untilTime } : {})
