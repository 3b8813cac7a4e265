import { useQuery } from '@connectrpc/connect-query'
import { TunnelService } from '../../gen/fairlead/tunnel/v1/tunnel_pb'
import { failureAt } from '../../hub/errors'
import { Age } from '../../live/Age'
import { amount, plain } from '../../ui/text'

// The sessions of a cluster's agents at the tunnels, with their round trips.
export function Sessions({ cluster }: { cluster: string }) {
  const got = useQuery(TunnelService.method.listSessions, {}, { refetchInterval: 30_000 })
  if (got.error && !got.data)
    return <span className="quiet">{plain(failureAt('tunnel', got.error).message)}</span>
  if (!got.data) return <span className="quiet">asking the tunnel…</span>
  const mine = got.data.sessions.filter((s) => s.cluster === cluster)
  const silent = got.data.silentReplicas
  return (
    <>
      {mine.length === 0 && 'none'}
      {mine.map((s) => (
        <div key={s.id}>
          at {plain(s.replica, 100)} for <Age of={s.connectTime} />, {trip(s.roundTripMicros)} there and back,{' '}
          {amount(s.streams, 'stream')}
          {s.carrier === 'connect' && ', without a WebSocket'}
        </div>
      ))}
      {silent.length > 0 && (
        <div className="quiet">
          {plain(silent.join(', '), 300)} did not answer: sessions there are missing
        </div>
      )}
    </>
  )
}

export function trip(micros: bigint): string {
  if (micros <= 0n) return 'not measured'
  const ms = Number(micros) / 1000
  return ms < 10 ? `${ms.toFixed(1)} ms` : `${Math.round(ms)} ms`
}
