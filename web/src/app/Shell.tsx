import { useIsFetching, useQueryClient } from '@tanstack/react-query'
import { useEffect, useRef, useState } from 'react'
import { NavLink } from 'react-router'
import { endSession, type Session } from '../hub/session'
import { clock } from '../live/ages'
import { every, hubFails, staleAfter, useNow } from '../live/asked'
import { useStream } from '../live/live'
import { plain } from '../ui/text'
import { Keys, useKeys } from './Keys'
import { labelOnPhones } from './labels'
import { Newer } from './Newer'
import { Palette } from './Palette'
import { Undo } from './Undo'
import { Version } from './Version'

const places = [
  ['/', 'Fleet'],
  ['/services', 'Services'],
  ['/clusters', 'Clusters'],
  ['/sources', 'Sources'],
  ['/globalservices', 'Global services'],
  ['/config', 'Configuration'],
  ['/access', 'Access'],
  ['/activity', 'Activity'],
  ['/hub', 'Hub'],
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
  const content = useRef<HTMLElement>(null)
  useEffect(() => (content.current ? labelOnPhones(content.current) : undefined), [])
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
          <NavLink to="/me" title={session.groups.join(', ')}>
            {plain(session.user)}
          </NavLink>
          <SignOut />
        </div>
      </header>
      <nav className="rail" aria-label="Pages">
        {places.map(([to, name]) => (
          <NavLink key={to} to={to} end={to === '/'}>
            {name}
          </NavLink>
        ))}
        <Version />
      </nav>
      <main id="content" tabIndex={-1} ref={content}>
        <Newer />
        {away && (
          <div className="notice bad" role="status">
            {plain(away)}
          </div>
        )}
        {children}
      </main>
      <Keys help={help} />
      <Palette />
      <Undo />
    </div>
  )
}

// Says whether answers come, by the stream or by polls, and since when they don't.
function Live() {
  const now = useNow()
  const stream = useStream()
  useIsFetching()
  const answers = useQueryClient()
    .getQueryCache()
    .getAll()
    .filter((q) => q.isActive())
  const newest = Math.max(stream.asOf, 0, ...answers.map((q) => q.state.dataUpdatedAt))
  const failed = !stream.live && hubFails(answers)
  const live = newest > 0 && now - newest < staleAfter && !failed
  const wait = Math.ceil((stream.nextTry - now) / 1000)
  return (
    <span className="live-mark" data-live={live} role="status" aria-live="off">
      {live
        ? `${stream.live ? 'live' : `every ${every / 1000} s`} `
        : newest > 0
          ? 'offline since '
          : 'asking'}
      {newest > 0 && clock(newest)}
      {!live && wait > 0 && <span className="quiet">, next try in {wait} s</span>}
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
