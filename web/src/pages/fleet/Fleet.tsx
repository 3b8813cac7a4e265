import { lazy } from 'react'
import { Link, useSearchParams } from 'react-router'
import { AlertService } from '../../gen/fairlead/console/v1/alert_service_pb'
import { Kind } from '../../gen/fairlead/console/v1/catalog_service_pb'
import { ClusterService } from '../../gen/fairlead/console/v1/cluster_service_pb'
import { EventService } from '../../gen/fairlead/console/v1/event_service_pb'
import { LiveService } from '../../gen/fairlead/console/v1/live_service_pb'
import { ServiceService } from '../../gen/fairlead/console/v1/service_service_pb'
import { SourceService } from '../../gen/fairlead/console/v1/source_service_pb'
import { failureOf } from '../../hub/errors'
import { Age } from '../../live/Age'
import { useFreshness } from '../../live/asked'
import { useLastHour } from '../../live/lastHour'
import { useLive } from '../../live/live'
import { State } from '../../state/State'
import { stateOf, worstFirst } from '../../state/states'
import { AlertSays } from '../../ui/AlertSays'
import { Curves } from '../../ui/Curves'
import { HeldSays } from '../../ui/HeldSays'
import { useHeld } from '../../ui/held'
import { Failed, Stale, Title, Waiting } from '../../ui/Panel'
import { Part } from '../../ui/Part'
import { Said } from '../../ui/Said'
import { type Cell, cellsOf, groups, sums } from './cells'
import { Inside } from './Inside'

const Waits = lazy(() => import('./Waits'))

// The grid draws so many cells; beyond, only the clusters that are not well.
const most = 400
const mostDrawn = 2000

export function Fleet() {
  const [params] = useSearchParams()
  const group = params.get('group') ?? ''
  const services = useLive(LiveService.method.countResources, {
    kind: Kind.SERVICE,
    groupBy: ['cluster', 'state'],
  })
  const by = group ? [`labels.${group}`] : []
  const clusters = useLive(LiveService.method.countResources, {
    kind: Kind.CLUSTER,
    groupBy: ['name', 'connected', ...by],
  })
  const asked = [services, clusters]
  const fresh = useFreshness(asked)
  const again = () => {
    for (const a of asked) void a.refetch()
  }
  const failed = asked.find((a) => a.error && !a.data)
  if (failed)
    return (
      <>
        <Title tab="Fleet">Fleet</Title>
        <Failed failure={failureOf(failed.error)} again={again} />
      </>
    )
  if (!services.data || !clusters.data)
    return (
      <>
        <Title tab="Fleet">Fleet</Title>
        <Waiting what="the fleet" />
      </>
    )
  const byState = sums(services.data.counts)
  const cells = cellsOf(clusters.data.counts, services.data.counts)
  return (
    <>
      <Title tab={byState.get('failed') ? '✕ Fleet' : 'Fleet'}>Fleet</Title>
      <Stale of={fresh} again={again} />
      <div className={fresh.stale || fresh.failure ? 'counters stale' : 'counters'}>
        {worstFirst
          .filter((s) => byState.get(s))
          .map((s) => (
            <Link key={s} to={`/services?q=${encodeURIComponent(`state = ${s}`)}`}>
              <State of={s} />
              <strong style={{ marginLeft: 8 }}>{byState.get(s)?.toLocaleString()}</strong>
            </Link>
          ))}
        {byState.size === 0 && (
          <span>
            There is no service that you may see. <code>fairlead init</code> writes a first one.
          </span>
        )}
      </div>
      <div className={fresh.stale || fresh.failure ? 'columns stale' : 'columns'}>
        <Alerts />
        <NeedsAPerson />
        <Clusters cells={cells} group={group} />
        <Changed />
        <Trouble />
      </div>
      <Inside group={group} />
      <Curves />
    </>
  )
}

// What a panel says until it has an answer, and where it gets none.
function Told({
  of,
  what,
}: {
  of: { error: unknown; isPending: boolean; refetch: () => unknown }
  what: string
}) {
  if (of.error) return <Failed failure={failureOf(of.error)} again={() => void of.refetch()} />
  return of.isPending ? <Waiting what={what} /> : null
}

// Alerts that fire; nothing where none does.
function Alerts() {
  const list = useLive(AlertService.method.listAlerts, { pageSize: 200 })
  const firing = list.data?.alerts.filter((a) => a.status?.firing.length) ?? []
  if (firing.length === 0 && !list.error) return null
  return (
    <section className="panel">
      <h2>Alerts</h2>
      <Told of={list} what="alerts" />
      <ul className="lines">
        {firing.map((a) => (
          <li key={a.metadata?.name}>
            <Link to={`/alert/${a.metadata?.name}`}>{a.metadata?.name}</Link> <AlertSays of={a} />
          </li>
        ))}
      </ul>
    </section>
  )
}

function NeedsAPerson() {
  const list = useLive(ServiceService.method.listServices, {
    filter: 'state >= waiting',
    orderBy: 'state desc, state_since desc',
    pageSize: 12,
    readMask: {
      paths: ['metadata.name', 'spec.cluster', 'status.state', 'status.state_message', 'status.state_since'],
    },
  })
  const held = useHeld('', list.data?.services, (s) => s.metadata?.name ?? '')
  return (
    <section className="panel">
      <h2>Needs a person</h2>
      <Told of={list} what="services" />
      {list.data && held.rows.length === 0 && <p>No service does.</p>}
      <Part what="decisions that wait">
        <Waits />
      </Part>
      <ul className="lines" ref={held.ref}>
        {held.rows.map((s) => (
          <li
            key={s.metadata?.name}
            className={held.waiting?.gone.has(s.metadata?.name ?? '') ? 'stale' : undefined}
          >
            <State of={stateOf(s.status?.state)} />{' '}
            <Link to={`/service/${s.metadata?.name}`}>{s.metadata?.name}</Link>{' '}
            <span className="quiet">
              {s.spec?.cluster} · <Age of={s.status?.stateSince} />
            </span>
            <div className="quiet">
              <Said of={s.status?.stateMessage ?? ''} max={240} />
            </div>
          </li>
        ))}
      </ul>
      <HeldSays {...held} />
      {list.data?.nextPageToken && (
        <Link to={`/services?q=${encodeURIComponent('state >= waiting')}`}>All of them</Link>
      )}
    </section>
  )
}

function Clusters({ cells, group }: { cells: Cell[]; group: string }) {
  const labels = useLive(ClusterService.method.listClusters, {
    pageSize: 100,
    readMask: { paths: ['metadata.labels'] },
  })
  const keys = [
    ...new Set(labels.data?.clusters.flatMap((c) => Object.keys(c.metadata?.labels ?? {})) ?? []),
  ].sort()
  const [, setParams] = useSearchParams()
  const drawn = cells.length <= most ? cells : cells.filter((c) => c.state !== 'healthy').slice(0, mostDrawn)
  const held = useHeld(group, drawn, (c) => c.name)
  const all = new Map(groups(cells))
  const shown = new Map(groups(held.rows))
  return (
    <section className="panel">
      <div className="head">
        <h2>Clusters {cells.length.toLocaleString()}</h2>
        {(keys.length > 0 || group) && (
          <label>
            by{' '}
            <select
              value={group}
              onChange={(e) => setParams(e.target.value ? { group: e.target.value } : {})}
              aria-label="Group the clusters by a label"
            >
              <option value="">nothing</option>
              {[...new Set([...keys, ...(group ? [group] : [])])].map((k) => (
                <option key={k}>{k}</option>
              ))}
            </select>
          </label>
        )}
      </div>
      {cells.length === 0 && (
        <p>
          There is no cluster that you may see. <Link to="/join">Join one</Link>
        </p>
      )}
      <div ref={held.ref}>
        {[...new Set([...shown.keys(), ...all.keys()])].map((name) => (
          <div key={name}>
            {group && (
              <div>
                <strong>{name || 'without it'}</strong> {(all.get(name)?.length ?? 0).toLocaleString()}
              </div>
            )}
            <div className="grid">
              {shown.get(name)?.map((c) => (
                <Link
                  key={c.name}
                  to={`/cluster/${c.name}`}
                  title={`${c.name}: ${c.words}`}
                  className={held.waiting?.gone.has(c.name) ? 'stale' : undefined}
                >
                  <State of={c.state} note={`${c.name}: ${c.words}`} />
                  <span className="state">
                    <span className="word">{c.name}</span>
                  </span>
                </Link>
              ))}
              {cells.length > most && (
                <span className="quiet">
                  +{(all.get(name) ?? []).filter((c) => c.state === 'healthy').length.toLocaleString()} well
                </span>
              )}
            </div>
          </div>
        ))}
      </div>
      <HeldSays {...held} />
    </section>
  )
}

// The newest changes, so many of them: the stream adds to the page that was asked for.
const mostChanges = 10

export function Changed() {
  const list = useLive(EventService.method.listEvents, {
    filter: 'time > 1h AND type : service',
    pageSize: mostChanges,
  })
  const recent = useLastHour(list.data?.events)
  const held = useHeld('', recent.slice(0, mostChanges), (e) => e.id)
  return (
    <section className="panel">
      <h2>Changed in the last hour</h2>
      <Told of={list} what="events" />
      {list.data && held.rows.length === 0 && <p>Nothing did.</p>}
      <ul className="lines" ref={held.ref}>
        {held.rows.map((e) => (
          <li key={e.id}>
            <Age of={e.time} /> {e.service ? <Link to={`/service/${e.service}`}>{e.service}</Link> : null}{' '}
            <span className="quiet">{e.cluster}</span> <Said of={e.message} max={200} />
          </li>
        ))}
      </ul>
      <HeldSays {...held} />
      <Link to="/activity">All activity</Link>
    </section>
  )
}

function Trouble() {
  const list = useLive(SourceService.method.listSources, {
    filter: 'state = failing',
    orderBy: 'state_since desc',
    pageSize: 10,
  })
  const held = useHeld('', list.data?.sources, (s) => s.metadata?.name ?? '')
  return (
    <section className="panel">
      <h2>Sources in trouble</h2>
      <Told of={list} what="sources" />
      {list.data && held.rows.length === 0 && <p>None is.</p>}
      <ul className="lines" ref={held.ref}>
        {held.rows.map((s) => (
          <li
            key={s.metadata?.name}
            className={held.waiting?.gone.has(s.metadata?.name ?? '') ? 'stale' : undefined}
          >
            <Link to={`/source/${s.metadata?.name}`}>{s.metadata?.name}</Link>{' '}
            <Age of={s.status?.problem?.since} />
            <div className="quiet">
              <Said of={s.status?.problem?.message ?? ''} max={300} />
            </div>
          </li>
        ))}
      </ul>
      <HeldSays {...held} />
    </section>
  )
}
