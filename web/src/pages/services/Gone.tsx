import { Link } from 'react-router'
import { EventService } from '../../gen/fairlead/console/v1/event_service_pb'
import { ServiceService } from '../../gen/fairlead/console/v1/service_service_pb'
import { quote } from '../../hub/filter'
import { Age } from '../../live/Age'
import { useLastHour } from '../../live/lastHour'
import { useLive } from '../../live/live'
import { plain } from '../../ui/text'

const most = 20

// Services that were deleted within the last hour and are not there again: their pages bring them back. Nothing where there are none.
export default function Gone() {
  const events = useLive(EventService.method.listEvents, {
    filter: 'type = service.deleted AND time > 1h',
    pageSize: 100,
  })
  const recent = useLastHour(events.data?.events)
  const of = new Map(recent.toReversed().map((e) => [e.service, e]))
  const names = [...of.keys()].slice(-most)
  const there = useLive(
    ServiceService.method.listServices,
    {
      filter: names.map((n) => `name = ${quote(n)}`).join(' OR '),
      pageSize: most,
      readMask: { paths: ['metadata.name'] },
    },
    { enabled: names.length > 0 },
  )
  if (names.length === 0 || !there.data) return null
  const again = new Set(there.data.services.map((s) => s.metadata?.name))
  const gone = names.filter((n) => !again.has(n)).toReversed()
  if (gone.length === 0) return null
  return (
    <section className="panel" aria-label="Deleted in the last hour">
      <h2>Deleted in the last hour</h2>
      <ul className="lines">
        {gone.map((name) => (
          <li key={name}>
            <Link to={`/service/${name}`}>{plain(name, 63)}</Link>{' '}
            <span className="quiet">
              {plain(of.get(name)?.actor ?? '', 300)} <Age of={of.get(name)?.time} /> ago
            </span>
          </li>
        ))}
      </ul>
    </section>
  )
}
