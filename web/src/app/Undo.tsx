import { useSyncExternalStore } from 'react'
import { failureOf } from '../hub/errors'
import { clock } from '../live/ages'
import { handOnFocus } from '../ui/Ask'
import { Said } from '../ui/Said'
import { plain } from '../ui/text'
import { type Done, tray } from '../ui/tray'

const words: Record<Done['state'], string> = {
  done: 'taken in',
  undoing: 'is being undone',
  undone: 'undone',
  failed: 'is not undone',
  refused: 'failed',
}

// What a person has done in this tab and can undo, or what failed of it, the newest first.
export function Undo() {
  // The region is there before what it tells of.
  return (
    <div aria-live="polite">
      <Tray />
    </div>
  )
}

function Tray() {
  const list = useSyncExternalStore(tray.subscribe, tray.snapshot)
  if (list.length === 0) return null
  return (
    <section className="notice tray" aria-label="What you did">
      <ul className="lines">
        {list.map((d) => (
          <li key={d.id}>
            {plain(d.what, 200)}: {words[d.state]}{' '}
            {d.state !== 'undoing' && <span className="quiet">{clock(d.at)}</span>}{' '}
            {(d.state === 'done' || d.state === 'failed') && (
              <button
                type="button"
                onClick={(e) => {
                  handOnFocus(e.currentTarget, null)
                  void tray.undo(d.id)
                }}
              >
                {d.state === 'done' ? 'Undo' : 'Try again'}
              </button>
            )}
            {d.state === 'undone' && d.note && <div className="quiet">{plain(d.note, 600)}</div>}
            {(d.state === 'failed' || d.state === 'refused') && (
              <div className="cause">
                <Said of={failureOf(d.failure).message} max={1500} />
              </div>
            )}
          </li>
        ))}
      </ul>
      <button
        type="button"
        onClick={(e) => {
          handOnFocus(e.currentTarget, null)
          tray.clear()
        }}
      >
        Close
      </button>
    </section>
  )
}
