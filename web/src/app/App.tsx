import { useQuery, useQueryClient } from '@tanstack/react-query'
import { lazy, Suspense, useEffect, useLayoutEffect, useRef } from 'react'
import { Route, Routes } from 'react-router'
import { failureOf } from '../hub/errors'
import { getSession, renewAfter, renewSession, SignedOut } from '../hub/session'
import { holdStream, stream } from '../live/live'
import { Access } from '../pages/access/Access'
import { Activity } from '../pages/activity/Activity'
import { Cluster } from '../pages/cluster/Cluster'
import { Clusters } from '../pages/clusters/Clusters'
import { Config } from '../pages/config/Config'
import { Fleet } from '../pages/fleet/Fleet'
import { Global } from '../pages/globals/Global'
import { Globals } from '../pages/globals/Globals'
import { Hub } from '../pages/hub/Hub'
import { Join } from '../pages/join/Join'
import { Me } from '../pages/me/Me'
import { Missing } from '../pages/missing/Missing'
import { Recording } from '../pages/recording/Recording'
import { Resource } from '../pages/resource/Resource'
import { Service } from '../pages/service/Service'
import { Services } from '../pages/services/Services'
import { Source } from '../pages/source/Source'
import { Sources } from '../pages/sources/Sources'
import { Failed, Waiting } from '../ui/Panel'
import { Login, LoginAgain } from './Login'
import { Shell } from './Shell'

// The editor brings a reader of YAML along, which other pages do without.
const Apply = lazy(() => import('../pages/apply/Apply'))
const Explore = lazy(() => import('../pages/explore/Explore'))

// Kinds whose page is what is written down.
const plain = ['project', 'role', 'grant', 'serviceaccount', 'configset', 'secret', 'backend', 'sink']

export function App() {
  const queries = useQueryClient()
  // A session that ended elsewhere is over here within 30 s, also on a page that asks nothing else.
  const session = useQuery({ queryKey: ['session'], queryFn: getSession, refetchInterval: 10_000 })
  const { data, error, refetch } = session
  const renewal = data?.expireTime
  useEffect(() => {
    if (!data || !renewal) return
    const timer = setTimeout(
      () =>
        void renewSession().then(
          () => refetch(),
          () => refetch(),
        ),
      renewAfter(data, Date.now()),
    )
    return () => clearTimeout(timer)
  }, [data, renewal, refetch])

  // What one person may see is not shown to the next.
  const owner = useRef('')
  const user = data ? `${data.user} ${data.groups.join(' ')}` : ''
  useLayoutEffect(() => {
    if (user === '' || user === owner.current) return
    if (owner.current !== '') queries.removeQueries({ predicate: (q) => q.queryKey[0] !== 'session' })
    owner.current = user
  }, [user, queries])

  // The stream is a session's, too.
  const over = error instanceof SignedOut
  const inside = user !== '' && !over
  useEffect(() => (inside ? holdStream() : undefined), [inside])

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
  return (
    <Shell session={data} away={error && !over ? failureOf(error).message : ''}>
      {over && <LoginAgain user={data.user} done={() => refetch().then(() => stream.retry())} />}
      <Routes>
        <Route path="/" element={<Fleet />} />
        <Route path="/services" element={<Services />} />
        <Route path="/service/:name" element={<Service />} />
        <Route path="/clusters" element={<Clusters />} />
        <Route path="/cluster/:name" element={<Cluster />} />
        <Route
          path="/cluster/:name/explore/*"
          element={
            <Suspense fallback={<Waiting what="the explorer" />}>
              <Explore />
            </Suspense>
          }
        />
        <Route path="/sources" element={<Sources />} />
        <Route path="/activity" element={<Activity />} />
        <Route path="/source/:name" element={<Source />} />
        <Route path="/join" element={<Join />} />
        <Route path="/cluster/:name/join" element={<Join />} />
        <Route path="/globalservices" element={<Globals />} />
        <Route path="/globalservice/:name" element={<Global />} />
        <Route path="/config" element={<Config />} />
        <Route path="/access" element={<Access />} />
        <Route path="/recording/:id" element={<Recording />} />
        <Route path="/hub" element={<Hub />} />
        <Route path="/me" element={<Me />} />
        <Route
          path="/apply"
          element={
            <Suspense fallback={<Waiting what="the editor" />}>
              <Apply />
            </Suspense>
          }
        />
        {plain.map((kind) => (
          <Route key={kind} path={`/${kind}/:name`} element={<Resource kind={kind} />} />
        ))}
        <Route path="*" element={<Missing />} />
      </Routes>
    </Shell>
  )
}
