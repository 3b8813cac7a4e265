import { Link } from 'react-router'
import { EventService, Severity } from '../../gen/fairlead/console/v1/event_service_pb'
import { failureOf } from '../../hub/errors'
import { Age } from '../../live/Age'
import { useLive } from '../../live/live'
import { State } from '../../state/State'
import { Pager, usePages } from '../../ui/Pager'
import { Failed, Waiting } from '../../ui/Panel'
import { plain, shortCommit } from '../../ui/text'

export function Events({ filter, size }: { filter: string; size: number }) {
  const pages = usePages(filter)
  const list = useLive(
    EventService.method.listEvents,
    { filter, pageSize: size, pageToken: pages.token },
    { keep: true },
  )
  if (list.error && !list.data)
    return <Failed failure={failureOf(list.error)} again={() => void list.refetch()} />
  if (!list.data) return <Waiting what="events" />
  if (list.data.events.length === 0) return <p>No event of the last seven days fits.</p>
  return (
    <>
      <div className="table-wrap">
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
            {list.data.events.map((e) => (
              <tr key={e.id}>
                <td>
                  <Age of={e.time} />
                </td>
                <td>
                  {e.severity === Severity.ERROR && <State of="failed" />}{' '}
                  {e.severity === Severity.WARNING && <State of="degraded" />} {plain(e.type)}
                </td>
                <td>
                  {e.service && <Link to={`/service/${e.service}`}>{e.service}</Link>}{' '}
                  {e.cluster && <Link to={`/cluster/${e.cluster}`}>{e.cluster}</Link>} {e.source}
                </td>
                <td>
                  {plain(e.message, 600)} <span className="mono quiet">{shortCommit(e.commit)}</span>
                </td>
                <td>{plain(e.actor)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <Pager pages={pages} next={list.data.nextPageToken} size={size} total={undefined} />
    </>
  )
}
