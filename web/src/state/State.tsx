import { localTimes } from '../ui/times'
import type { State as Name } from './states'

// Each state has a shape of its own, so that colour never says it alone.
const shapes: Record<Name, React.ReactNode> = {
  failed: <path d="M4 1h4l3 3v4l-3 3H4L1 8V4zM4 4l4 4M8 4l-4 4" />,
  degraded: <path d="M6 1.2 11 10.5H1zM6 5v2.6M6 8.6v.9" />,
  unknown: <path d="M1.5 1.5h9v9h-9zM1.5 6 6 1.5M1.5 10.5l9-9M6 10.5 10.5 6" />,
  differs: <path d="M1.5 4.2h9M1.5 7.8h9M8.5 1.5l-5 9" />,
  waiting: <path d="M6 1 11 6 6 11 1 6z" />,
  held: <path d="M3.8 1.5v9M8.2 1.5v9" strokeWidth="2.4" />,
  pending: <circle cx="6" cy="6" r="4.4" />,
  progressing: (
    <>
      <circle cx="6" cy="6" r="4.4" />
      <path d="M6 1.6a4.4 4.4 0 0 1 0 8.8z" fill="currentColor" />
    </>
  ),
  healthy: <path d="M1.8 6.4 4.8 9.4 10.4 2.8" strokeWidth="2" />,
}

// word: what stands beside the shape where the state's own name would not fit.
export function State({ of, note, word = of }: { of: Name; note?: string; word?: string }) {
  return (
    <span
      className="state"
      data-state={of}
      style={{ color: `var(--${of})` }}
      title={note && localTimes(note)}
    >
      <svg viewBox="0 0 12 12" fill="none" stroke="currentColor" strokeWidth="1.4" aria-hidden="true">
        {shapes[of]}
      </svg>
      <span className="word">{word}</span>
    </span>
  )
}
