import { useQuery } from '@connectrpc/connect-query'
import { ConfigService, type PreviewConfigRequest } from '../gen/fairlead/console/v1/config_set_service_pb'
import { failureOf } from '../hub/errors'
import { useFreshness } from '../live/asked'
import { Export } from './Export'
import { Failed, Stale, Waiting } from './Panel'
import { Said } from './Said'
import { plain } from './text'

// The configuration that a service gets, or would get: each value, where it comes from, and what it is over.
export function Values({ of }: { of: PreviewConfigRequest['of'] }) {
  // A draft does not change, and what is typed into it is kept no longer than it is shown.
  const once = of?.case === 'draft' ? { refetchInterval: false as const, gcTime: 0 } : {}
  const got = useQuery(ConfigService.method.previewConfig, { of }, once)
  const fresh = useFreshness([got])
  if (got.error && !got.data)
    return <Failed failure={failureOf(got.error)} again={() => void got.refetch()} />
  if (!got.data) return <Waiting what="the configuration" />
  if (got.data.entries.length === 0)
    return (
      <p>It has no configuration: neither sets nor project, cluster or the service itself give it a value.</p>
    )
  const { entries } = got.data
  return (
    <>
      {fresh.failure && <Stale of={fresh} again={() => void got.refetch()} />}
      <Export
        name={of?.case === 'service' ? `${of.value}-configuration` : 'configuration'}
        columns={['name', 'value', 'from', 'over', 'problem']}
        rows={entries.map((e) => ({
          name: e.name,
          value: e.secret ? '' : e.value, // the hub does not send secret ones
          from: e.origin,
          over: e.overrides.join(', '),
          problem: e.problem || e.stale,
        }))}
      />
      <div className={fresh.failure ? 'table-wrap stale' : 'table-wrap'}>
        <table>
          <thead>
            <tr>
              <th scope="col">Name</th>
              <th scope="col">Value</th>
              <th scope="col">From</th>
              <th scope="col">Over</th>
            </tr>
          </thead>
          <tbody>
            {entries.map((e) => (
              <tr key={e.name}>
                <td className="name">{plain(e.name, 253)}</td>
                <td className="mono">{e.secret ? 'secret, never shown' : plain(e.value, 1000)}</td>
                <td>
                  {plain(e.origin, 300)}
                  {e.problem && (
                    <div className="cause">
                      <Said of={e.problem} max={600} />
                    </div>
                  )}
                  {e.stale && (
                    <div className="cause">
                      <Said of={e.stale} max={300} />
                    </div>
                  )}
                </td>
                <td className="quiet">{plain(e.overrides.join(', '), 600)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  )
}
