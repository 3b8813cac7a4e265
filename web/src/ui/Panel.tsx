import { useEffect, useRef } from 'react'
import type { Failure } from '../hub/errors'
import { age, clock } from '../live/ages'
import { type Freshness, useNow } from '../live/asked'
import { Said } from './Said'

// The heading of a page. It takes the focus when a person comes to the page, so that a screen reader says where one is.
export function Title({ children, tab }: { children: React.ReactNode; tab: string }) {
  const at = useRef<HTMLHeadingElement>(null)
  useEffect(() => {
    document.title = `${tab} · Fairlead`
  }, [tab])
  useEffect(() => at.current?.focus({ preventScroll: true }), [])
  return (
    <h1 ref={at} tabIndex={-1}>
      {children}
    </h1>
  )
}

// Words that an error needs: the hub's sentence, its code, and a way to ask again.
export function Failed({ failure, again }: { failure: Failure; again?: () => void }) {
  return (
    <div className="notice bad" role="alert">
      <div>
        <Said of={failure.message} />
      </div>
      <div className="actions">
        <span className="quiet">{failure.code}</span>
        {again && (
          <button type="button" onClick={again}>
            Ask again
          </button>
        )}
      </div>
    </div>
  )
}

// Says how old a page is, once that is no longer seconds. It is read aloud when it comes, and not each second: the age is for the eyes.
export function Stale({ of, again }: { of: Freshness; again: () => void }) {
  const now = useNow()
  if (!of.failure && !of.stale) return null
  return (
    <div className="notice bad" role="status">
      {of.asOf > 0 && (
        <>
          {of.failure?.away ? 'Offline since' : 'As of'} {clock(of.asOf)}, showing what was known then
          <span aria-hidden="true">, {age(now - of.asOf)} ago</span>.{' '}
        </>
      )}
      {of.failure ? <Said of={of.failure.message} /> : 'No newer answer has come.'}{' '}
      <button type="button" onClick={again}>
        Ask again
      </button>
    </div>
  )
}

export function Waiting({ what }: { what: string }) {
  return (
    <p className="quiet" role="status">
      Asking the console for {what}…
    </p>
  )
}
