import { useQuery } from '@connectrpc/connect-query'
import type { GetHubResponse } from '../../gen/fairlead/console/v1/admin_service_pb'
import { type Replica, ShardService } from '../../gen/fairlead/gitcache/v1/shard_pb'
import { failureAt } from '../../hub/errors'
import { Age } from '../../live/Age'
import { useFreshness } from '../../live/asked'
import { State } from '../../state/State'
import { Export } from '../../ui/Export'
import { Failed, Stale, Waiting } from '../../ui/Panel'
import { Said } from '../../ui/Said'
import { isoOf, plain } from '../../ui/text'

type Row = [
  service: string,
  Pick<Replica, 'name' | 'draining' | 'version' | 'startTime' | 'url'> & { answers?: boolean },
]

const columns = ['service', 'replica', 'state', 'version', 'since', 'url']

// The consoles, gitcaches, distributors and tunnels of the hub. Their versions may differ from that of the console that answers while the hub is
// upgraded.
export function Replicas({ hub }: { hub: GetHubResponse }) {
  const got = useQuery(ShardService.method.listReplicas, {}, { refetchInterval: 15_000 })
  const fresh = useFreshness([got])
  const again = () => void got.refetch()
  const of: Row[] = [
    ...hub.consoles.map((c): Row => ['console', { ...c, draining: false, url: '' }]),
    ...(got.data?.replicas ?? []).map((r): Row => ['gitcache', r]),
    ...(got.data?.others ?? []).map((r): Row => [r.service, r]),
  ]
  return (
    <section className="panel" aria-label="Replicas">
      <div className="head">
        <h2>Replicas</h2>
        <span className="end">
          <Export
            name="replicas"
            columns={columns}
            rows={of.map(([service, r]) => ({
              service,
              replica: r.name,
              state: r.draining ? 'drains' : 'serves',
              version: r.version,
              since: isoOf(r.startTime),
              url: r.url,
            }))}
          />
        </span>
      </div>
      {got.error && !got.data && <Failed failure={failureAt('gitcache', got.error)} again={again} />}
      {got.isPending && <Waiting what="the replicas of the hub" />}
      {got.data && fresh.failure && (
        <Stale of={{ ...fresh, failure: failureAt('gitcache', got.error) }} again={again} />
      )}
      {hub.consolesMissing && (
        <div className="notice bad">
          Other consoles are missing: <Said of={hub.consolesMissing} max={600} />
        </div>
      )}
      {got.data?.othersMissing && (
        <div className="notice bad">
          Distributors and tunnels are missing: <Said of={got.data.othersMissing} max={600} />
        </div>
      )}
      {got.data && got.data.others.length === 0 && !got.data.othersMissing && (
        <p className="quiet">
          Distributors and tunnels are listed where they share a Redis with the gitcaches.
        </p>
      )}
      {of.length > 0 && (
        <div className={got.data && fresh.failure ? 'table-wrap stale' : 'table-wrap'}>
          <table>
            <thead>
              <tr>
                {['Service', 'Replica', 'State', 'Version', 'Up for'].map((t) => (
                  <th scope="col" key={t}>
                    {t}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {of.map(([service, r]) => (
                <tr key={`${service} ${r.name} ${isoOf(r.startTime)}`}>
                  <td>{service}</td>
                  <td className="name">
                    {plain(r.name, 253)}
                    {r.answers && <div className="quiet">answers this page</div>}
                  </td>
                  <td>
                    <State of={r.draining ? 'held' : 'healthy'} word={r.draining ? 'drains' : 'serves'} />
                  </td>
                  <td>
                    {plain(r.version, 64) || 'not known'}
                    {r.version !== '' && r.version !== hub.version && (
                      <div className="cause">not the version of the console that answers</div>
                    )}
                  </td>
                  <td>{r.startTime ? <Age of={r.startTime} /> : 'not known'}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  )
}
