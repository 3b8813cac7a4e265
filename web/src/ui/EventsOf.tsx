import { Link } from 'react-router'
import { type Event, EventService, Severity } from '../gen/fairlead/console/v1/event_service_pb'
import { failureOf } from '../hub/errors'
import { useFreshness } from '../live/asked'
import { useLive } from '../live/live'
import { When } from '../live/When'
import { State } from '../state/State'
import { Export } from './Export'
import { HeldSays } from './HeldSays'
import { questionOf, useHeld } from './held'
import { Empty, Pager, usePages } from './Pager'
import { Failed, Stale, Waiting } from './Panel'
import { Said } from './Said'
import { isoOf, plain, shortCommit } from './text'

export function EventsOf({ filter, size, name = 'events' }: { filter: string; size: number; name?: string }) {
  const pages = usePages(filter, 'events')
  const list = useLive(
    EventService.method.listEvents,
    { filter, pageSize: size, pageToken: pages.token },
    { keep: true },
  )
  const held = useHeld(questionOf(list, filter, size, pages.token), list.data?.events, (e) => e.id)
  const fresh = useFreshness([list])
  const again = () => void list.refetch()
  if (list.error && !list.data)
    return (
      <>
        <Failed failure={failureOf(list.error)} again={again} />
        <Pager pages={pages} next="" size={size} total={undefined} />
      </>
    )
  if (!list.data) return <Waiting what="events" />
  const pager = <Pager pages={pages} next={list.data.nextPageToken} size={size} total={undefined} />
  if (held.rows.length === 0)
    return (
      <>
        <Stale of={fresh} again={again} />
        <Empty pages={pages}>
          <p>No event of the last seven days fits.</p>
        </Empty>
        {pager}
      </>
    )
  return (
    <>
      <Stale of={fresh} again={again} />
      <Export name={name} columns={columns} rows={held.rows.map(rowOf)} />
      <div ref={held.ref}>
        <div className={fresh.stale || fresh.failure ? 'table-wrap stale' : 'table-wrap'}>
          <table>
            <thead>
              <tr>
                <th scope="col">When</th>
                <th scope="col">Type</th>
                <th scope="col">About</th>
                <th scope="col">What happened</th>
                <th scope="col">Who</th>
              </tr>
            </thead>
            <tbody>
              {held.rows.map((e) => (
                <tr key={e.id}>
                  <td>
                    <When of={e.time} />
                  </td>
                  <td>
                    {e.severity === Severity.ERROR && <State of="failed" word="error" />}{' '}
                    {e.severity === Severity.WARNING && <State of="degraded" word="warning" />}{' '}
                    {plain(e.type)}
                  </td>
                  <td>
                    {e.service && <Link to={`/service/${e.service}`}>{e.service}</Link>}{' '}
                    {e.cluster && <Link to={`/cluster/${e.cluster}`}>{e.cluster}</Link>} {e.source}
                  </td>
                  <td>
                    <Said of={e.message} max={600} />{' '}
                    <span className="mono quiet">{shortCommit(e.commit)}</span>
                  </td>
                  <td>{plain(e.actor)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
        <HeldSays {...held} />
      </div>
      {pager}
    </>
  )
}

const columns = [
  'time',
  'type',
  'severity',
  'service',
  'cluster',
  'source',
  'message',
  'commit',
  'actor',
  'trace',
]

const rowOf = (e: Event) => ({
  time: isoOf(e.time),
  type: e.type,
  severity: Severity[e.severity] ?? '',
  service: e.service,
  cluster: e.cluster,
  source: e.source,
  message: e.message,
  commit: e.commit,
  actor: e.actor,
  trace: e.traceId,
})
