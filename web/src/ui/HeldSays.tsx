import { handOnFocus } from './Ask'
import type { HeldRows } from './held'

// Says below a list what waits while its rows are held in place.
export function HeldSays({ waiting, show }: Pick<HeldRows<unknown>, 'waiting' | 'show'>) {
  if (!waiting) return null
  const { came, gone, moved } = waiting
  const words = [
    came > 0 ? `${came.toLocaleString()} new` : '',
    gone.size > 0 ? `${gone.size.toLocaleString()} gone` : '',
    moved ? 'another order' : '',
  ].filter(Boolean)
  return (
    <p className="held">
      Rows stay in place while your pointer or focus is among them. Waiting: {words.join(', ')}.{' '}
      <button
        type="button"
        data-waiting=""
        aria-keyshortcuts="."
        onClick={(e) => {
          handOnFocus(e.currentTarget, null)
          show()
        }}
      >
        Show
      </button>
    </p>
  )
}
