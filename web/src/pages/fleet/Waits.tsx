import { useQuery } from '@connectrpc/connect-query'
import { Link } from 'react-router'
import { AdminService } from '../../gen/fairlead/console/v1/admin_service_pb'
import { GlobalServiceService } from '../../gen/fairlead/console/v1/global_service_service_pb'
import { AccessRequestState, LendingService } from '../../gen/fairlead/console/v1/lending_service_pb'
import { Age } from '../../live/Age'
import { useLive } from '../../live/live'
import { State } from '../../state/State'
import { amount, plain } from '../../ui/text'

const often = 15_000
const most = 5

// What waits for a person besides services: requests for access, and removals that look like an accident. What the person may not see is not there.
export default function Waits() {
  const asked = useQuery(
    LendingService.method.listAccessRequests,
    { pageSize: 100 },
    { refetchInterval: often, retry: false },
  )
  const globals = useLive(GlobalServiceService.method.listGlobalServices, {
    pageSize: 1000,
    readMask: { paths: ['metadata.name', 'status'] },
  })
  const removals = useQuery(AdminService.method.getRemovals, {}, { refetchInterval: often, retry: false })
  const requests = (asked.data?.requests ?? []).filter((r) => r.state === AccessRequestState.WAITING)
  const held = (globals.data?.globalServices ?? []).filter((g) => (g.status?.heldBackTotal ?? 0) > 0)
  const count = (removals.data?.clusters ?? []).reduce((n, c) => n + c.services.length, 0)
  if (requests.length === 0 && held.length === 0 && !removals.data?.holdTime) return null
  return (
    <ul className="lines" aria-label="Decisions">
      {removals.data?.holdTime && (
        <li>
          <State of="waiting" /> <Link to="/hub">removals of the hub</Link>{' '}
          <span className="quiet">
            <Age of={removals.data.holdTime} />
          </span>
          <div className="quiet">{amount(count, 'service')} would leave their clusters</div>
        </li>
      )}
      {held.slice(0, most).map((g) => (
        <li key={g.metadata?.name}>
          <State of="waiting" /> <Link to={`/globalservice/${g.metadata?.name}`}>{g.metadata?.name}</Link>{' '}
          <span className="quiet">
            global service
            {g.status?.heldBackSince && (
              <>
                {' '}
                · <Age of={g.status.heldBackSince} />
              </>
            )}
          </span>
          <div className="quiet">
            deletes {amount(g.status?.heldBackTotal ?? 0, 'service')} when a person confirms it
          </div>
        </li>
      ))}
      {held.length > most && <li className="quiet">and {held.length - most} more global services</li>}
      {requests.slice(0, most).map((r) => (
        <li key={r.id}>
          <State of="waiting" /> <Link to="/access?tab=requests">request of {plain(r.subject, 100)}</Link>{' '}
          <span className="quiet">
            {plain(r.cluster, 63)} · <Age of={r.createTime} />
          </span>
          <div className="quiet">
            role {plain(r.role, 63)}: {plain(r.reason, 240)}
          </div>
        </li>
      ))}
      {requests.length > most && (
        <li>
          <Link to="/access?tab=requests">and {requests.length - most} more requests</Link>
        </li>
      )}
    </ul>
  )
}
