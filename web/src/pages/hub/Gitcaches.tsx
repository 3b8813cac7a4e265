import { useQuery } from '@connectrpc/connect-query'
import { keepPreviousData } from '@tanstack/react-query'
import { Link, useSearchParams } from 'react-router'
import { type Replica, type Shard, ShardService } from '../../gen/fairlead/gitcache/v1/shard_pb'
import { failureAt } from '../../hub/errors'
import { Age } from '../../live/Age'
import { State } from '../../state/State'
import { Ask, useLever } from '../../ui/Ask'
import { Export } from '../../ui/Export'
import { Empty, Pager, usePages } from '../../ui/Pager'
import { Failed, Waiting } from '../../ui/Panel'
import { amount, plain } from '../../ui/text'

const size = 100

// The gitcaches that live, and which of them fetches each source.
export function Gitcaches() {
  const [params, setParams] = useSearchParams()
  const replica = params.get('replica') ?? ''
  const list = useQuery(ShardService.method.listReplicas, {})
  if (list.error && !list.data)
    return <Failed failure={failureAt('gitcache', list.error)} again={() => void list.refetch()} />
  if (!list.data) return <Waiting what="gitcaches" />
  const replicas = list.data.replicas
  return (
    <>
      {list.error && <Failed failure={failureAt('gitcache', list.error)} again={() => void list.refetch()} />}
      <div className={list.error ? 'table-wrap stale' : 'table-wrap'}>
        <table>
          <thead>
            <tr>
              {['Gitcache', 'State', 'Sources', 'Copies', 'Version', 'Up for', 'Actions'].map((t) => (
                <th scope="col" key={t}>
                  {t}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {replicas.map((r) => (
              <tr key={r.name}>
                <td className="name">
                  <Link to={`?${new URLSearchParams({ tab: 'gitcaches', replica: r.name })}`}>
                    {plain(r.name, 253)}
                  </Link>
                </td>
                <td>
                  <State of={r.draining ? 'held' : 'healthy'} word={r.draining ? 'drains' : 'serves'} />
                </td>
                <td>
                  {r.owned} of {r.preferred} that it should own
                </td>
                <td>{r.copies}</td>
                <td>{plain(r.version, 64)}</td>
                <td>
                  <Age of={r.startTime} />
                </td>
                <td>
                  <Drain of={r} changed={() => void list.refetch()} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <div className="actions">
        <select
          aria-label="Sources of"
          value={replica}
          onChange={(e) =>
            setParams({ tab: 'gitcaches', ...(e.target.value ? { replica: e.target.value } : {}) })
          }
        >
          <option value="">sources of all gitcaches</option>
          {[...new Set([...replicas.map((r) => r.name), ...(replica ? [replica] : [])])].map((r) => (
            <option key={r} value={r}>
              {plain(r, 253)}
            </option>
          ))}
        </select>
      </div>
      <Shards replica={replica} replicas={replicas} />
    </>
  )
}

function Drain({ of, changed }: { of: Replica; changed: () => void }) {
  const drain = useLever(ShardService.method.setDraining, changed)
  return (
    <Ask
      verb={of.draining ? 'Take back' : 'Drain'}
      title={`${of.draining ? 'Take back' : 'Drain'} ${of.name}`}
      words={
        of.draining
          ? 'It owns sources again, those that it should.'
          : `It hands over its ${amount(of.owned, 'source')}, one after the other, and owns none until it is taken back or restarts. It goes on serving.`
      }
      lever={drain}
      request={() => ({ replica: of.name, draining: !of.draining })}
    />
  )
}

function Shards({ replica, replicas }: { replica: string; replicas: Replica[] }) {
  const pages = usePages(replica)
  const list = useQuery(
    ShardService.method.listShards,
    { replica, pageSize: size, pageToken: pages.token },
    { placeholderData: keepPreviousData },
  )
  if (list.error && !list.data)
    return (
      <>
        <Failed failure={failureAt('gitcache', list.error)} again={() => void list.refetch()} />
        <Pager pages={pages} next="" size={size} total={undefined} />
      </>
    )
  const failed = list.error && (
    <Failed failure={failureAt('gitcache', list.error)} again={() => void list.refetch()} />
  )
  if (!list.data) return <Waiting what="sources" />
  const shards = list.data.shards
  const pager = <Pager pages={pages} next={list.data.nextPageToken} size={size} total={undefined} />
  if (shards.length === 0)
    return (
      <>
        {failed}
        <Empty pages={pages}>
          <p>There is no source here.</p>
        </Empty>
        {pager}
      </>
    )
  return (
    <>
      {failed}
      <div className={list.isPlaceholderData || list.error ? 'table-wrap stale' : 'table-wrap'}>
        <table>
          <thead>
            <tr>
              {['Source', 'Fetched by', 'Should be', 'Epoch', 'Actions'].map((t) => (
                <th scope="col" key={t}>
                  {t}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {shards.map((s) => (
              <tr key={s.source}>
                <td className="name">
                  <Link to={`/source/${s.source}`}>{plain(s.source, 63)}</Link>
                </td>
                <td>
                  {plain(s.owner, 253) || <State of="waiting" word="nobody" />}
                  {s.note && <div className="cause">{plain(s.note, 600)}</div>}
                </td>
                <td>{plain(s.preferred[0] ?? '', 253)}</td>
                <td>{String(s.epoch)}</td>
                <td>
                  <Move of={s} replicas={replicas} changed={() => void list.refetch()} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <Export
        name="shards"
        columns={['source', 'owner', 'preferred', 'note']}
        rows={shards.map((s) => ({
          source: s.source,
          owner: s.owner,
          preferred: s.preferred.join(' '),
          note: s.note,
        }))}
      />
      {pager}
    </>
  )
}

function Move({ of, replicas, changed }: { of: Shard; replicas: Replica[]; changed: () => void }) {
  const move = useLever(ShardService.method.moveSource, changed)
  const others = replicas.filter((r) => r.name !== of.owner && !r.draining)
  if (others.length === 0) return null
  return (
    <Ask
      verb="Move"
      title={`Move ${of.source}`}
      words="The gitcache gets a copy and then owns the source, until it drains or ends. Nothing stops meanwhile."
      lever={move}
      choices={others.map((r) => [r.name, r.name])}
      request={(_, replica) => ({ source: of.source, replica })}
    />
  )
}
