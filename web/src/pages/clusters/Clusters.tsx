import { useQuery } from '@connectrpc/connect-query'
import { keepPreviousData } from '@tanstack/react-query'
import { Link, useSearchParams } from 'react-router'
import { ClusterService } from '../../gen/fairlead/console/v1/cluster_service_pb'
import { failureOf } from '../../hub/errors'
import { toFilter } from '../../hub/filter'
import { Age } from '../../live/Age'
import { freshness, useNow } from '../../live/asked'
import { State } from '../../state/State'
import { Column } from '../../ui/Column'
import { Pager, usePages } from '../../ui/Pager'
import { Failed, Stale, Title, Waiting } from '../../ui/Panel'
import { Search } from '../../ui/Search'
import { plain } from '../../ui/text'

const size = 100

export function Clusters() {
  const [params] = useSearchParams()
  const filter = toFilter(params.get('q') ?? '')
  const orderBy = params.get('sort') ?? 'connected'
  const pages = usePages(`${filter}\n${orderBy}`)
  const list = useQuery(
    ClusterService.method.listClusters,
    {
      filter,
      orderBy,
      pageSize: size,
      pageToken: pages.token,
      readMask: { paths: ['metadata.name', 'metadata.labels', 'status'] },
    },
    { placeholderData: keepPreviousData },
  )
  const fresh = freshness([list], useNow())
  return (
    <>
      <div className="head">
        <Title tab="Clusters">Clusters</Title>
        <Search hint="name, or a filter: connected = false" />
      </div>
      {list.error && !list.data ? (
        <Failed failure={failureOf(list.error)} again={() => void list.refetch()} />
      ) : null}
      {list.data && <Stale of={fresh} again={() => void list.refetch()} />}
      {list.isPending && <Waiting what="clusters" />}
      {list.data?.clusters.length === 0 && <p>{filter ? 'No cluster fits.' : 'No cluster has joined.'}</p>}
      {list.data && list.data.clusters.length > 0 && (
        <div className={fresh.stale || fresh.failure ? 'table-wrap stale' : 'table-wrap'}>
          <table>
            <thead>
              <tr>
                <Column title="Name" field="name" first="connected" />
                <Column title="Connected" field="connected" first="connected" />
                <Column title="Last seen" field="last_seen_time" first="connected" />
                <th scope="col">Kubernetes</th>
                <Column title="Agent" field="agent_version" first="connected" />
                <th scope="col">Labels</th>
              </tr>
            </thead>
            <tbody>
              {list.data.clusters.map((c) => (
                <tr key={c.metadata?.name}>
                  <td className="name">
                    <Link to={`/cluster/${c.metadata?.name}`}>{c.metadata?.name}</Link>
                    {c.status?.skew && <div className="cause">{plain(c.status.skew)}</div>}
                  </td>
                  <td>
                    <State of={c.status?.connected ? 'healthy' : 'unknown'} />{' '}
                    {c.status?.connected
                      ? 'connected'
                      : c.status?.leaveTime
                        ? 'left'
                        : c.status?.joinTime
                          ? 'not connected'
                          : 'never joined'}
                  </td>
                  <td>
                    <Age of={c.status?.lastSeenTime} />
                  </td>
                  <td>{plain(c.status?.kubernetesVersion ?? '')}</td>
                  <td>{plain(c.status?.agentVersion ?? '')}</td>
                  <td className="quiet">
                    {plain(
                      Object.entries(c.metadata?.labels ?? {})
                        .map(([k, v]) => `${k}=${v}`)
                        .join(' '),
                      400,
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      <Pager pages={pages} next={list.data?.nextPageToken ?? ''} size={size} total={undefined} />
    </>
  )
}
