import { createClient } from '@connectrpc/connect'
import { useRef, useState } from 'react'
import { ServiceService } from '../../gen/fairlead/console/v1/service_service_pb'
import { SyncService } from '../../gen/fairlead/console/v1/sync_service_pb'
import { failureOf } from '../../hub/errors'
import { inParallel } from '../../hub/parallel'
import { transport } from '../../hub/transport'
import { State } from '../../state/State'
import { handOnFocus } from '../../ui/Ask'
import { useOnce } from '../../ui/once'
import { amount, plain } from '../../ui/text'
import { tray } from '../../ui/tray'
import { keep, type Outcome, pull as pullLever, verbs } from './verbs'

const hub = { ...createClient(SyncService, transport), ...createClient(ServiceService, transport) }

// One lever for many services: what will happen, and an outcome for each.
export function Batch({
  chosen,
  clear,
  changed,
}: {
  chosen: ReadonlySet<string>
  clear: () => void
  changed: () => void
}) {
  const dialog = useRef<HTMLDialogElement>(null)
  const [verb, setVerb] = useState(verbs[0])
  const [outcomes, setOutcomes] = useState<Outcome[]>()
  const [left, setLeft] = useState(0)
  const once = useOnce()
  const names = [...chosen]
  if (names.length === 0) return null
  const refused = outcomes?.filter((o) => o.error) ?? []
  const pull = async (reason: string) => {
    setLeft(names.length)
    const came: Outcome[] = await inParallel(names, 6, async (name) => {
      try {
        return { name, error: '', undo: await pullLever(hub, verb, name, reason) }
      } catch (e) {
        return { name, error: failureOf(e).message }
      } finally {
        setLeft((n) => n - 1)
      }
    })
    setOutcomes(came)
    // A person who closed it meanwhile learns what was refused.
    if (came.some((o) => o.error) && !dialog.current?.open) dialog.current?.showModal()
    keep(tray, verb, came, dialog.current !== null)
    changed()
  }
  return (
    <div className="notice actions chosen" data-actions>
      <strong role="status">{names.length} chosen:</strong>
      {verbs.map((v) => (
        <button
          key={v.name}
          type="button"
          onClick={() => {
            // What is on its way has its outcomes first.
            if (left === 0) {
              setVerb(v)
              setOutcomes(undefined)
            }
            dialog.current?.showModal()
          }}
        >
          {v.name}
        </button>
      ))}
      <button
        type="button"
        onClick={(e) => {
          handOnFocus(e.currentTarget, null)
          clear()
        }}
      >
        Choose none
      </button>
      <dialog ref={dialog} aria-label={`${verb.name} ${amount(names.length, 'service')}`}>
        <h2>
          {verb.name} {amount(names.length, 'service')}
        </h2>
        <p>{verb.words}</p>
        <p className="quiet">
          {plain(names.slice(0, 10).join(', '), 800)}
          {names.length > 10 && ` and ${names.length - 10} more`}
        </p>
        <form
          onSubmit={(e) => {
            e.preventDefault()
            const reason = String(new FormData(e.currentTarget).get('reason') ?? '')
            once.send(() => void pull(reason).finally(once.settled))
          }}
        >
          {verb.wants && !outcomes && (
            <label>
              Reason
              <input name="reason" required maxLength={256} />
            </label>
          )}
          {left > 0 && <p role="status">{left} to go</p>}
          {outcomes && left === 0 && (
            <>
              <p role="status">
                The hub has taken in {outcomes.length - refused.length}
                {refused.length > 0 && `, and refused ${refused.length}`}. The clusters follow.
              </p>
              <ul className="lines">
                {refused.slice(0, 50).map((o) => (
                  <li key={o.name}>
                    <State of="failed" word="refused" /> {o.name}: {plain(o.error, 400)}
                  </li>
                ))}
                {refused.length > 50 && <li>and {refused.length - 50} more</li>}
              </ul>
            </>
          )}
          <div className="actions">
            {!outcomes && (
              <button type="submit" disabled={left > 0}>
                {verb.name}
              </button>
            )}
            <button type="button" onClick={() => dialog.current?.close()}>
              {outcomes ? 'Close' : 'Cancel'}
            </button>
          </div>
        </form>
      </dialog>
    </div>
  )
}
