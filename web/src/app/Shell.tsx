import { useIsFetching, useQueryClient } from '@tanstack/react-query'
import { useEffect, useState } from 'react'
import { NavLink } from 'react-router'
import { endSession, type Session } from '../hub/session'
import { clock } from '../live/ages'
import { useNow } from '../live/asked'
import { plain } from '../ui/text'
import { Keys, useKeys } from './Keys'

const places = [
  ['/', 'Fleet'],
  ['/services', 'Services'],
  ['/clusters', 'Clusters'],
  ['/sources', 'Sources'],
  ['/activity', 'Activity'],
] as const

export function Shell({
  session,
  away,
  children,
}: {
  session: Session
  away: string
  children: React.ReactNode
}) {
  const help = useKeys()
  return (
    <div className="shell">
      <a className="skip" href="#content">
        Go to the content
      </a>
      <header className="bar">
        <NavLink to="/" className="brand">
          <svg
            width="24"
            height="24"
            viewBox="0 0 24 24"
            fill="none"
            stroke="currentColor"
            aria-hidden="true"
          >
            <circle cx="12" cy="12" r="7.5" strokeWidth="3" />
            <path d="M1 18.5C7 18.5 8.5 15 12 12S17 5.5 23 5.5" strokeWidth="2" />
          </svg>
          Fairlead
        </NavLink>
        <div className="end">
          <Live />
          <Theme />
          <span title={session.groups.join(', ')}>{plain(session.user)}</span>
          <SignOut />
        </div>
      </header>
      <nav className="rail" aria-label="Pages">
        {places.map(([to, name]) => (
          <NavLink key={to} to={to} end={to === '/'}>
            {name}
          </NavLink>
        ))}
      </nav>
      <main id="content" tabIndex={-1}>
        {away && (
          <div className="notice bad" role="status">
            {plain(away)}
          </div>
        )}
        {children}
      </main>
      <Keys help={help} />
    </div>
  )
}

// Says whether answers come, and when the last one did.
function Live() {
  const now = useNow()
  const asking = useIsFetching()
  const answers = useQueryClient().getQueryCache().getAll()
  const shown = answers.filter((q) => q.isActive())
  const newest = Math.max(0, ...shown.map((q) => q.state.dataUpdatedAt))
  const live = newest > 0 && now - newest < 25_000 && !shown.some((q) => q.state.status === 'error')
  return (
    <span className="live-mark" data-live={live} data-asking={asking > 0}>
      {live ? 'live' : newest ? `offline since ${clock(newest)}` : 'offline'}
    </span>
  )
}

function Theme() {
  const [theme, setTheme] = useState(() => localStorage.getItem('theme') ?? '')
  useEffect(() => {
    if (theme) document.documentElement.dataset.theme = theme
    else delete document.documentElement.dataset.theme
    localStorage.setItem('theme', theme)
  }, [theme])
  return (
    <select aria-label="Theme" value={theme} onChange={(e) => setTheme(e.target.value)}>
      <option value="">As the system</option>
      <option value="light">Light</option>
      <option value="dark">Dark</option>
    </select>
  )
}

function SignOut() {
  const queries = useQueryClient()
  const [failed, setFailed] = useState('')
  return (
    <button
      type="button"
      title={failed}
      onClick={() =>
        endSession().then(
          () => {
            queries.clear()
            window.location.assign('/')
          },
          (e: Error) => setFailed(e.message),
        )
      }
    >
      {failed ? 'Sign out failed: try again' : 'Sign out'}
    </button>
  )
}
