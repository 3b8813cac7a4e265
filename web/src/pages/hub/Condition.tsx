import { type Duration, durationMs, type Timestamp } from '@bufbuild/protobuf/wkt'
import { useQuery } from '@connectrpc/connect-query'
import type {
  AlertState,
  DatabaseState,
  GetHubResponse,
  HubAlert,
} from '../../gen/fairlead/console/v1/admin_service_pb'
import { ShardService } from '../../gen/fairlead/gitcache/v1/shard_pb'
import { often, pageVersion, useCondition } from '../../hub/about'
import { failureAt, failureOf } from '../../hub/errors'
import { Age } from '../../live/Age'
import { State } from '../../state/State'
import { Failed, Waiting } from '../../ui/Panel'
import { Said } from '../../ui/Said'
import { bytesOf, plain } from '../../ui/text'
import { Replicas } from './Replicas'

// How the hub is: its version, what it stands on, and the alerts that fire. The last three are for administrators.
export function Condition() {
  const got = useCondition()
  const again = () => void got.refetch()
  if (got.error && !got.data) return <Failed failure={failureOf(got.error)} again={again} />
  if (!got.data) return <Waiting what="the state of the hub" />
  const { database, alerts } = got.data
  return (
    <>
      {got.error && <Failed failure={failureOf(got.error)} again={again} />}
      {alerts && <Alerts of={alerts} />}
      <div className={got.error ? 'columns stale' : 'columns'}>
        <Versions of={got.data} />
        {database && <Database of={database} />}
        {database && <Coordination />}
      </div>
      <Replicas hub={got.data} />
    </>
  )
}

function Versions({ of }: { of: GetHubResponse }) {
  const page = pageVersion(of.version)
  return (
    <section className="panel" aria-label="Versions">
      <h2>Versions</h2>
      <dl>
        <dt>Console</dt>
        <dd>
          {plain(of.version, 64)}, up for <Age of={of.startTime} />
        </dd>
        <dt>This page</dt>
        <dd>
          {plain(page, 64)}
          {page !== of.version && (
            <>
              {' '}
              <button type="button" onClick={() => window.location.reload()}>
                Load the newer one
              </button>
            </>
          )}
        </dd>
      </dl>
    </section>
  )
}

function Database({ of }: { of: DatabaseState }) {
  return (
    <section className="panel" aria-label="Database">
      <h2>Database</h2>
      <Answers problem={of.problem} since={of.since} took={of.roundTrip} />
      <dl>
        <dt>Kind</dt>
        <dd>
          {of.kind === 'postgresql' ? 'PostgreSQL' : of.kind === 'sqlite' ? 'SQLite' : plain(of.kind, 40)}{' '}
          {plain(of.version, 80)}
        </dd>
        <dt>Size</dt>
        <dd>{of.bytes > 0n ? bytesOf(Number(of.bytes)) : 'not known'}</dd>
        <dt>Last write</dt>
        <dd>
          {of.writeTime ? (
            <>
              <Age of={of.writeTime} /> ago, durable after {milliseconds(of.writeDuration)}
            </>
          ) : (
            'none by this console yet'
          )}
        </dd>
      </dl>
    </section>
  )
}

// What the gitcaches agree by, as the one that answers sees it.
function Coordination() {
  const got = useQuery(ShardService.method.getCoordination, {}, { refetchInterval: often })
  const is = got.data
  return (
    <section className="panel" aria-label="Redis">
      <h2>Redis</h2>
      {got.error && <Failed failure={failureAt('gitcache', got.error)} again={() => void got.refetch()} />}
      {!is && !got.error && <Waiting what="Redis" />}
      {is?.kind === 'memory' && <p>The hub is one process, which needs no Redis.</p>}
      {is && is.kind !== 'memory' && (
        <>
          <Answers problem={is.problem} since={is.since} took={is.roundTrip} />
          <p className="quiet">
            As {plain(is.replica, 253)} sees it. Leases and replicas are there, and nothing that can't be
            lost.
          </p>
        </>
      )}
    </section>
  )
}

function Answers({
  problem,
  since,
  took,
}: {
  problem: string
  since: Timestamp | undefined
  took: Duration | undefined
}) {
  if (!since) return <p className="quiet">It was not asked yet.</p>
  return (
    <p>
      <State of={problem ? 'failed' : 'healthy'} word={problem ? 'does not answer' : 'answers'} /> for{' '}
      <Age of={since} />
      {problem ? (
        <span className="cause">
          : <Said of={problem} max={600} />
        </span>
      ) : (
        <>, in {milliseconds(took)}</>
      )}
    </p>
  )
}

function milliseconds(of: Duration | undefined): string {
  const ms = of ? durationMs(of) : 0
  if (ms < 0.1) return 'less than 0.1 ms'
  return ms < 10 ? `${ms.toFixed(1)} ms` : `${Math.round(ms)} ms`
}

function Alerts({ of }: { of: AlertState }) {
  return (
    <section className="panel" aria-label="Alerts about the hub">
      <h2>Alerts about the hub</h2>
      {!of.configured && (
        <p className="quiet">
          The console knows no Prometheus: with <code>--prometheus-url</code> the alerts that fire stand here.
        </p>
      )}
      {of.problem && (
        <div className="notice bad" role="alert">
          Which alerts fire is not known: {plain(of.problem, 600)}
        </div>
      )}
      {of.configured && !of.problem && of.alerts.length === 0 && (
        <p>
          <State of="healthy" word="none fires" />
        </p>
      )}
      {of.alerts.length > 0 && (
        <ul className="lines">
          {of.alerts.map((a) => (
            <li key={`${a.name} ${Object.values(a.labels).join(' ')}`}>
              <Firing of={a} />
            </li>
          ))}
        </ul>
      )}
    </section>
  )
}

function Firing({ of }: { of: HubAlert }) {
  const about = Object.entries(of.labels)
    .map(([k, v]) => `${k}=${v}`)
    .sort()
  return (
    <>
      <State
        of={of.severity === 'critical' ? 'failed' : 'degraded'}
        word={plain(of.severity, 40) || 'fires'}
      />{' '}
      <b>{plain(of.name, 120)}</b> for <Age of={of.activeTime} />: {plain(of.summary, 600)}
      <div className="cause quiet">
        {plain(of.description, 1024)} {plain(about.join(', '), 600)}
      </div>
      <div className="quiet">
        What to do: <code>docs/operate/runbooks/{plain(of.name, 120)}.md</code>
      </div>
    </>
  )
}
