import { useQuery } from '@connectrpc/connect-query'
import { ClusterViewService } from '../gen/fairlead/console/v1/cluster_view_service_pb'
import { failureOf } from '../hub/errors'
import { Age } from '../live/Age'
import { useFreshness } from '../live/asked'
import { curveHeight, drawn, stepsOf } from '../state/curves'
import { Failed, Stale, Waiting } from './Panel'
import { amount, plain } from './text'

// A curve has a new step every 5 minutes. That of a cluster says by the minute what its open step knows.
const often = 60_000
const seldom = 300_000

// The last 24 hours of a cluster, or of all that the person sees, added up. The words say what the picture shows, which
// is not read out.
export function Curves({ cluster = '' }: { cluster?: string }) {
  const got = useQuery(
    ClusterViewService.method.getViewCurves,
    { cluster },
    { refetchInterval: cluster ? often : seldom, refetchOnWindowFocus: true, staleTime: often },
  )
  const fresh = useFreshness([got])
  if (got.error && !got.data)
    return (
      <section className="panel" aria-label="The last 24 hours">
        <h2>The last 24 hours</h2>
        <Failed failure={failureOf(got.error)} again={() => void got.refetch()} />
      </section>
    )
  if (!got.data)
    return (
      <section className="panel" aria-label="The last 24 hours">
        <h2>The last 24 hours</h2>
        <Waiting what="curves" />
      </section>
    )
  const curves = drawn(got.data)
  if (curves.length === 0) return null
  const { clusters } = got.data
  return (
    <section className="panel" aria-label="The last 24 hours">
      <h2>The last 24 hours</h2>
      {fresh.failure && <Stale of={fresh} again={() => void got.refetch()} />}
      <ul className={fresh.failure ? 'curves stale' : 'curves'}>
        {curves.map((c) => (
          <li key={c.figure}>
            <div>
              <strong>{plain(c.title, 80)}</strong> {c.last}
              {c.lastTime && (
                <span className="cause">
                  , <Age of={c.lastTime} /> ago
                </span>
              )}
              {c.clusters < clusters && (
                <span className="quiet">
                  {' '}
                  in {c.clusters.toLocaleString()} of {amount(clusters, 'cluster')}
                </span>
              )}
            </div>
            <svg
              className="drawn"
              viewBox={`0 -1 ${stepsOf(got.data)} ${curveHeight + 2}`}
              preserveAspectRatio="none"
              aria-hidden="true"
            >
              <path className="ground" d={c.ground} />
              <path className="line" d={c.line} />
            </svg>
            <div className="quiet">
              highest {c.highest},{' '}
              {c.highestTime ? (
                <>
                  <Age of={c.highestTime} /> ago
                </>
              ) : (
                'now'
              )}
            </div>
          </li>
        ))}
      </ul>
      {curves.some((c) => c.gaps) && (
        <p className="quiet">A gap is a time in which no agent was connected and counted all of it.</p>
      )}
    </section>
  )
}
