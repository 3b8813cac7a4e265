import { Link, useSearchParams } from 'react-router'
import { Kind } from '../../gen/fairlead/console/v1/catalog_service_pb'
import { ClusterService } from '../../gen/fairlead/console/v1/cluster_service_pb'
import { LiveService } from '../../gen/fairlead/console/v1/live_service_pb'
import type { Cluster, ClusterStatus } from '../../gen/fairlead/console/v1/resources_pb'
import { quote, toFilter } from '../../hub/filter'
import { Age } from '../../live/Age'
import { useLive } from '../../live/live'
import { countedBy } from '../../state/counted'
import { State as Shown } from '../../state/State'
import { connectionOf, type State, worst, worstFirst } from '../../state/states'
import { Column } from '../../ui/Column'
import { Export } from '../../ui/Export'
import { questionOf, useHeld } from '../../ui/held'
import { List } from '../../ui/List'
import { Nothing } from '../../ui/Nothing'
import { Empty, Pager, usePages } from '../../ui/Pager'
import { Title } from '../../ui/Panel'
import { labelsOf } from '../../ui/Resources'
import { Search } from '../../ui/Search'
import { Tabs, useTab } from '../../ui/Tabs'
import { amount, isoOf, plain } from '../../ui/text'
import { ByFigures } from './ByFigures'

const size = 100

const tabs = ['list', 'figures']

export function Clusters() {
  const tab = useTab(tabs)
  return (
    <>
      <div className="head">
        <Title tab="Clusters">Clusters</Title>
        <Search
          hint={
            tab === 'list' ? 'name, or a filter: connected = false' : 'name, or a filter: pods.not_ready > 0'
          }
        />
        <Link to="/join" className="button end">
          Join a cluster
        </Link>
      </div>
      <Tabs names={tabs} without={['q', 'sort']} />
      {tab === 'list' ? <Listed /> : <ByFigures />}
    </>
  )
}

function Listed() {
  const [params] = useSearchParams()
  const filter = toFilter(params.get('q') ?? '')
  const orderBy = params.get('sort') ?? 'connected'
  const pages = usePages(`${filter}\n${orderBy}`)
  const list = useLive(
    ClusterService.method.listClusters,
    {
      filter,
      orderBy,
      pageSize: size,
      pageToken: pages.token,
      readMask: { paths: ['metadata.name', 'metadata.labels', 'status'] },
    },
    { keep: true },
  )
  const held = useHeld(questionOf(list, filter, orderBy, pages.token), list.data?.clusters, nameOf)
  const counts = useLive(LiveService.method.countResources, {
    kind: Kind.SERVICE,
    groupBy: ['cluster', 'state'],
  })
  const states = countedBy(counts.data?.counts ?? [])
  return (
    <>
      <List
        what="clusters"
        of={list}
        count={list.data && held.rows.length}
        held={held}
        nothing={
          <Empty pages={pages}>
            <Nothing what="cluster" filter={filter} all="/clusters">
              <Link to="/join">Join one</Link>
            </Nothing>
          </Empty>
        }
      >
        <thead>
          <tr>
            <Column title="Name" field="name" first="connected" />
            <Column title="Connected" field="connected" first="connected" />
            <Column title="Last seen" field="last_seen_time" first="connected" />
            <th scope="col">Services</th>
            <th scope="col">Kubernetes</th>
            <Column title="Agent" field="agent_version" first="connected" />
            <th scope="col">Labels</th>
          </tr>
        </thead>
        <tbody>
          {held.rows.map((c) => (
            <tr key={nameOf(c)} className={held.waiting?.gone.has(nameOf(c)) ? 'stale' : undefined}>
              <td className="name">
                <Link to={`/cluster/${c.metadata?.name}`}>{c.metadata?.name}</Link>
                {c.status?.connected && c.status.clusterProblem && (
                  <div className="cause">{plain(c.status.clusterProblem)}</div>
                )}
                {c.status?.skew && <div className="cause">{plain(c.status.skew)}</div>}
              </td>
              <td>
                <Connection of={c.status} />
              </td>
              <td>
                <Age of={c.status?.lastSeenTime} />
              </td>
              <td>
                <ServicesOf of={states.get(c.metadata?.name ?? '')} cluster={c.metadata?.name ?? ''} />
              </td>
              <td>{plain(c.status?.kubernetesVersion ?? '')}</td>
              <td>{plain(c.status?.agentVersion ?? '')}</td>
              <td className="quiet">{labelsOf(c.metadata)}</td>
            </tr>
          ))}
        </tbody>
      </List>
      <div className="head">
        <Export
          name="clusters"
          columns={columns}
          rows={held.rows.map((c) => rowOf(c, states.get(nameOf(c))))}
        />
        <Pager pages={pages} next={list.data?.nextPageToken ?? ''} size={size} total={undefined} />
      </div>
    </>
  )
}

const nameOf = (c: Cluster) => c.metadata?.name ?? ''

// How many services a cluster has, as its worst one is.
function ServicesOf({ of, cluster }: { of: Map<State, number> | undefined; cluster: string }) {
  if (!of) return null
  const total = [...of.values()].reduce((sum, n) => sum + n, 0)
  const words = worstFirst.filter((s) => of.get(s)).map((s) => `${of.get(s)} ${s}`)
  const as = worst(of.keys()) ?? 'healthy'
  const before = as === 'healthy' ? '' : `${of.get(as)?.toLocaleString()} ${as} of `
  return (
    <Link
      to={`/services?q=${encodeURIComponent(`cluster = ${quote(cluster)}`)}`}
      title={words.join(', ')}
      aria-label={`${before}${amount(total, 'service')}: ${words.join(', ')}`} // begins with what is seen
    >
      <Shown of={as} word={before + total.toLocaleString()} />
    </Link>
  )
}

function Connection({ of }: { of: ClusterStatus | undefined }) {
  const [state, word] = connectionOf(of)
  return <Shown of={state} word={word} />
}

const columns = ['name', 'connected', 'last_seen', 'services', 'kubernetes', 'agent', 'labels']

const rowOf = (c: Cluster, services: Map<State, number> | undefined) => ({
  name: c.metadata?.name ?? '',
  connected: String(c.status?.connected ?? false),
  last_seen: isoOf(c.status?.lastSeenTime),
  services: worstFirst
    .filter((s) => services?.get(s))
    .map((s) => `${s}=${services?.get(s)}`)
    .join(' '),
  kubernetes: c.status?.kubernetesVersion ?? '',
  agent: c.status?.agentVersion ?? '',
  labels: labelsOf(c.metadata, Number.MAX_SAFE_INTEGER),
})
