import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useEffect, useLayoutEffect, useRef } from 'react'
import { Routes } from 'react-router'
import { failureOf } from '../hub/errors'
import { getSession, keepRenewed, type Session, SignedOut, turnOf } from '../hub/session'
import { holdStream, stream } from '../live/live'
import { Failed, Waiting } from '../ui/Panel'
import { Part } from '../ui/Part'
import { Login, LoginAgain } from './Login'
import { loadOthers, routes } from './routes'
import { Shell } from './Shell'

// The first page stands before the scripts of others come, in milliseconds.
const othersAfter = 3_000

export function App() {
  const queries = useQueryClient()
  // A session that ended elsewhere is over here within 30 s, also on a page that asks nothing else.
  const session = useQuery({ queryKey: ['session'], queryFn: getSession, refetchInterval: 10_000 })
  const { data, error, refetch } = session
  useEffect(() => (data ? keepRenewed(data, () => void refetch()) : undefined), [data, refetch])

  // What one person may see is not shown to the next, nor followed, nor what the first one typed: the next one begins with a page of their own.
  const owner = useRef<Session>(undefined)
  const turn = data && turnOf(owner.current, data)
  useLayoutEffect(() => {
    if (!data) return
    if (turn === 'person') {
      window.location.reload()
      return
    }
    owner.current = data
    if (turn !== 'rights') return
    void queries.resetQueries({ predicate: (q) => q.queryKey[0] !== 'session' })
    stream.forget()
  }, [data, turn, queries])

  // The stream is a session's, too.
  const over = error instanceof SignedOut
  const inside = data !== undefined && !over
  useEffect(() => (inside ? holdStream() : undefined), [inside])

  useEffect(() => {
    if (!inside) return
    const timer = setTimeout(loadOthers, othersAfter)
    return () => clearTimeout(timer)
  }, [inside])

  if (!data) {
    if (over) return <Login done={() => void refetch()} />
    return error ? (
      <div className="login">
        <Failed failure={failureOf(error)} again={() => void refetch()} />
      </div>
    ) : (
      <div className="login">
        <Waiting what="your session" />
      </div>
    )
  }
  if (turn === 'person') return <div className="login" />
  return (
    <Shell session={data} away={error && !over ? failureOf(error).message : ''}>
      {over && <LoginAgain user={data.user} done={() => refetch().then(() => stream.retry())} />}
      <Part what="the page">
        <Routes>{routes}</Routes>
      </Part>
    </Shell>
  )
}
