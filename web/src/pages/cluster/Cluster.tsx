import { useQuery } from '@connectrpc/connect-query'
import { Link, useParams } from 'react-router'
import { Kind } from '../../gen/fairlead/console/v1/catalog_service_pb'
import { ClusterService } from '../../gen/fairlead/console/v1/cluster_service_pb'
import { ClusterViewService } from '../../gen/fairlead/console/v1/cluster_view_service_pb'
import { LiveService } from '../../gen/fairlead/console/v1/live_service_pb'
import { failureOf, isMissing } from '../../hub/errors'
import { quote } from '../../hub/filter'
import { Age } from '../../live/Age'
import { age } from '../../live/ages'
import { useFreshness } from '../../live/asked'
import { useLive } from '../../live/live'
import { State } from '../../state/State'
import { connectionOf, isState, worstFirst } from '../../state/states'
import Changes from '../../ui/Changes'
import { Copied } from '../../ui/Copied'
import { Delete } from '../../ui/Delete'
import Deleted from '../../ui/Deleted'
import { EventsOf } from '../../ui/EventsOf'
import { lossOfCluster } from '../../ui/losses'
import { Failed, Stale, Title, Waiting } from '../../ui/Panel'
import { kindNamed, manifest, type ResourceKind } from '../../ui/resources'
import { Said } from '../../ui/Said'
import { plain } from '../../ui/text'
import { Frozen, Windows } from '../../ui/Windows'
import { Leave } from './Leave'
import { Sessions } from './Sessions'
import { View } from './View'

const explored = [
  ['Pods', 'core/v1/pods'],
  ['Workloads', 'apps/v1/deployments'],
  ['Nodes', 'core/v1/nodes'],
  ['Namespaces', 'core/v1/namespaces'],
  ['Custom resources', 'apiextensions.k8s.io/v1/customresourcedefinitions'],
] as const

const kind = kindNamed('Cluster') as ResourceKind

export function Cluster() {
  const { name = '' } = useParams()
  const got = useLive(ClusterService.method.getCluster, { name })
  const filter = `cluster = ${quote(name)}`
  const services = useLive(LiveService.method.countResources, {
    kind: Kind.SERVICE,
    filter,
    groupBy: ['state'],
  })
  // What the agent sees is asked for at once, and shown when the cluster is known to be there. This page is not drawn again with it.
  useQuery(
    ClusterViewService.method.getClusterView,
    { cluster: name },
    { refetchInterval: false, refetchOnWindowFocus: false, notifyOnChangeProps: [] },
  )
  const fresh = useFreshness([got])
  const counted = useFreshness([services])
  const missing = isMissing(got.error)
  const known = missing ? undefined : got.data
  const status = known?.cluster?.status
  const windows = known?.cluster?.spec?.windows ?? []
  const clockOff = Number(status?.clockSkew?.seconds ?? 0)
  return (
    <>
      <Title tab={name}>
        {plain(name, 80)} {status && <State of={connectionOf(status)[0]} word={connectionOf(status)[1]} />}
      </Title>
      {known && (
        <nav className="actions" aria-label="Objects of the cluster" data-actions>
          {explored.map(([words, to]) => (
            <Link key={to} className="button" to={`/cluster/${name}/explore/${to}`}>
              {words}
            </Link>
          ))}
        </nav>
      )}
      {got.error && !known ? (
        <Failed failure={failureOf(got.error)} again={() => void got.refetch()} />
      ) : null}
      {missing && <Deleted of={kind} name={name} back={() => void got.refetch()} />}
      {known && <Stale of={fresh} again={() => void got.refetch()} />}
      {got.isPending && <Waiting what="the cluster" />}
      {status?.tokenReuseTime && (
        <div className="notice bad" role="alert">
          <strong>A copied token of its agent was used</strong>
          <span aria-hidden="true">
            {' '}
            <Age of={status.tokenReuseTime} /> ago
          </span>
          : <Said of={status.tokenReuse} max={600} /> Somebody may have a copy of the agent's data folder.{' '}
          <em>Leave</em> below, or <code>fairlead cluster leave {name}</code>, ends all its credentials; then
          let the agent join again.
        </div>
      )}
      {status?.leaveTime && (
        <div className="notice">
          The cluster left <Age of={status.leaveTime} /> ago: its agent has no credentials. It can{' '}
          <Link to={`/cluster/${name}/join`}>join again</Link>.
        </div>
      )}
      {known?.cluster?.freeze && (
        <Frozen kind="cluster" name={name} of={known.cluster.freeze} changed={() => void got.refetch()} />
      )}
      {known && (
        <div className={fresh.stale || fresh.failure ? 'columns stale' : 'columns'}>
          <section className="panel">
            <h2>Agent</h2>
            <dl>
              <dt>Connection</dt>
              <dd>
                {status?.connected ? (
                  'connected'
                ) : (
                  <>
                    not connected; its services are shown as they were when it was last seen. Is the agent
                    running? <code>kubectl -n fairlead-system get pods</code>
                  </>
                )}
              </dd>
              {status?.connected && status.clusterProblem && (
                <>
                  <dt>Problem</dt>
                  <dd>
                    the agent can do nothing in the cluster: <Said of={status.clusterProblem} max={600} />
                  </dd>
                </>
              )}
              <dt>Last seen</dt>
              <dd>
                <Age of={status?.lastSeenTime} />
              </dd>
              <dt>Joined</dt>
              <dd>
                <Age of={status?.joinTime} />
              </dd>
              <dt>Kubernetes</dt>
              <dd>{plain(status?.kubernetesVersion ?? '') || 'not known'}</dd>
              <dt>Agent</dt>
              <dd>
                {plain(status?.agentVersion ?? '') || 'not known'}{' '}
                {status?.skew && <span className="quiet">{plain(status.skew)}</span>}
              </dd>
              {clockOff !== 0 && (
                <>
                  <dt>Clock</dt>
                  <dd>
                    {age(Math.abs(clockOff) * 1000)} {clockOff > 0 ? 'behind' : 'ahead of'} the hub's; windows
                    open and close by it
                  </dd>
                </>
              )}
              <dt>Sessions</dt>
              <dd>
                <Sessions cluster={name} />
              </dd>
              {(status?.joinTime || status?.lastSeenTime) && !status.leaveTime && (
                <>
                  <dt>Leave</dt>
                  <dd>
                    <Leave name={name} changed={() => void got.refetch()} />
                  </dd>
                </>
              )}
              <dt>Join again</dt>
              <dd>
                <Link to={`/cluster/${name}/join`}>a new command</Link>
              </dd>
              <dt>kubectl</dt>
              <dd>
                <code>fairlead kubeconfig {name}</code>{' '}
                <Link to={`/access?tab=requests&cluster=${encodeURIComponent(name)}`}>ask for access</Link>
              </dd>
            </dl>
          </section>
          <section className={counted.stale || counted.failure ? 'panel stale' : 'panel'}>
            <h2>Services</h2>
            {services.error && !services.data && (
              <Failed failure={failureOf(services.error)} again={() => void services.refetch()} />
            )}
            <div className="counters">
              {worstFirst.map((s) => {
                const count = services.data?.counts.find((c) => c.values[0] === s)?.count
                return count ? (
                  <Link key={s} to={`/services?q=${encodeURIComponent(`${filter} AND state = ${s}`)}`}>
                    <State of={s} />
                    <strong style={{ marginLeft: 8 }}>{count}</strong>
                  </Link>
                ) : null
              })}
            </div>
            {services.data?.counts.every((c) => !isState(c.values[0] ?? '')) && (
              <p>None is delivered here.</p>
            )}
            <p>
              <Link to={`/services?q=${encodeURIComponent(filter)}`}>All services of this cluster</Link>
            </p>
          </section>
        </div>
      )}
      {known && <View cluster={name} />}
      {known && (
        <section className="panel">
          <div className="head">
            <h2>Windows and freezes</h2>
            <span className="end">
              {!known.cluster?.freeze && (
                <Frozen kind="cluster" name={name} of={undefined} changed={() => void got.refetch()} />
              )}
            </span>
          </div>
          <Windows of={windows} name={name} />
          {windows.length > 0 && status?.joinTime && !status.holdsWindows && (
            <p className="cause">Its agent is too old to hold windows: it applies what is pushed.</p>
          )}
        </section>
      )}
      <section className="panel">
        <h2>Events</h2>
        <EventsOf filter={filter} size={25} name={`${name}-events`} />
      </section>
      {known?.cluster && (
        <section className="panel" aria-label="YAML">
          <div className="head">
            <h2>YAML</h2>
            <span className="end">
              <Copied text={manifest(kind, known.cluster)} />
              <Link className="button" to={`/apply?kind=Cluster&name=${encodeURIComponent(name)}`}>
                Edit
              </Link>
              <Delete of={kind} name={name} to="/clusters" loss={() => lossOfCluster(name)} />
            </span>
          </div>
          <pre>{plain(manifest(kind, known.cluster), 1 << 18)}</pre>
        </section>
      )}
      {known && <Changes of={kind} name={name} />}
    </>
  )
}
