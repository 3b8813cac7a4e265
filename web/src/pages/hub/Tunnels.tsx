import { useQuery } from '@connectrpc/connect-query'
import { Link } from 'react-router'
import { type Session, TunnelService } from '../../gen/fairlead/tunnel/v1/tunnel_pb'
import { failureAt } from '../../hub/errors'
import { Age } from '../../live/Age'
import { Export } from '../../ui/Export'
import { Failed, Waiting } from '../../ui/Panel'
import { plain } from '../../ui/text'

// Rows that a page draws: those with the longest round trips.
const most = 200

// The sessions of agents, by replica of the tunnel, and the slowest of them.
export function Tunnels() {
  const got = useQuery(TunnelService.method.listSessions, {}, { refetchInterval: 30_000 })
  if (got.error && !got.data)
    return <Failed failure={failureAt('tunnel', got.error)} again={() => void got.refetch()} />
  if (!got.data) return <Waiting what="sessions" />
  const { sessions, silentReplicas: silent } = got.data
  const slowest = sessions.toSorted((a, b) => Number(b.roundTripMicros - a.roundTripMicros))
  return (
    <>
      {got.error && <Failed failure={failureAt('tunnel', got.error)} again={() => void got.refetch()} />}
      {silent.length > 0 && (
        <div className="notice bad">
          {plain(silent.join(', '), 600)} did not answer: the sessions there are missing.
        </div>
      )}
      {sessions.length === 0 && <p>No cluster that you may view has a session.</p>}
      {sessions.length > 0 && (
        <>
          <div className={got.error ? 'table-wrap stale' : 'table-wrap'}>
            <table>
              <thead>
                <tr>
                  {['Tunnel', 'Sessions', 'Streams', 'Round trip, the middle one'].map((t) => (
                    <th scope="col" key={t}>
                      {t}
                    </th>
                  ))}
                </tr>
              </thead>
              <tbody>
                {byReplica(sessions).map(([name, list]) => (
                  <tr key={name}>
                    <td className="name">{plain(name, 253)}</td>
                    <td>{list.length.toLocaleString()}</td>
                    <td>{list.reduce((sum, s) => sum + s.streams, 0).toLocaleString()}</td>
                    <td>{ms(middle(list))}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
          <div className="head">
            <h2>Sessions, the slowest first</h2>
            <Export name="sessions" columns={columns} rows={slowest.map(rowOf)} />
          </div>
          <div className={got.error ? 'table-wrap stale' : 'table-wrap'}>
            <table>
              <thead>
                <tr>
                  {['Cluster', 'Tunnel', 'Since', 'Streams', 'Round trip', 'Agent', 'By'].map((t) => (
                    <th scope="col" key={t}>
                      {t}
                    </th>
                  ))}
                </tr>
              </thead>
              <tbody>
                {slowest.slice(0, most).map((s) => (
                  <tr key={s.id}>
                    <td className="name">
                      <Link to={`/cluster/${s.cluster}`}>{plain(s.cluster, 63)}</Link>
                    </td>
                    <td>{plain(s.replica, 253)}</td>
                    <td>
                      <Age of={s.connectTime} />
                    </td>
                    <td>{s.streams}</td>
                    <td>{ms(Number(s.roundTripMicros))}</td>
                    <td>{plain(s.agentVersion, 64)}</td>
                    <td>{s.carrier === 'connect' ? 'Connect, without a WebSocket' : plain(s.carrier, 32)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
          {slowest.length > most && (
            <p className="quiet">
              {most} of {slowest.length.toLocaleString()} are shown; CSV and YAML have all.
            </p>
          )}
        </>
      )}
    </>
  )
}

const ms = (micros: number) =>
  micros <= 0
    ? 'not measured'
    : micros < 10_000
      ? `${(micros / 1000).toFixed(1)} ms`
      : `${Math.round(micros / 1000)} ms`

function byReplica(sessions: Session[]): [string, Session[]][] {
  const by = new Map<string, Session[]>()
  for (const s of sessions) {
    const list = by.get(s.replica)
    if (list) list.push(s)
    else by.set(s.replica, [s])
  }
  return [...by].sort(([a], [b]) => a.localeCompare(b))
}

function middle(sessions: Session[]): number {
  const sorted = sessions.map((s) => Number(s.roundTripMicros)).sort((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)] ?? 0
}

const columns = ['cluster', 'replica', 'id', 'streams', 'round_trip_ms', 'agent', 'carrier']

const rowOf = (s: Session) => ({
  cluster: s.cluster,
  replica: s.replica,
  id: s.id,
  streams: String(s.streams),
  round_trip_ms: String(Number(s.roundTripMicros) / 1000),
  agent: s.agentVersion,
  carrier: s.carrier,
})
