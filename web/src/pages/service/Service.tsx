import { lazy } from 'react'
import { Link, useParams } from 'react-router'
import type { Service as Resource } from '../../gen/fairlead/console/v1/resources_pb'
import { ServiceService } from '../../gen/fairlead/console/v1/service_service_pb'
import { failureOf, isMissing } from '../../hub/errors'
import { quote } from '../../hub/filter'
import { Age } from '../../live/Age'
import { useFreshness } from '../../live/asked'
import { useLive } from '../../live/live'
import { State } from '../../state/State'
import { followedBy, sourceOf } from '../../state/sources'
import { stateOf } from '../../state/states'
import { EventsOf } from '../../ui/EventsOf'
import { Failed, Stale, Title, Waiting } from '../../ui/Panel'
import { Part } from '../../ui/Part'
import { kindNamed, type ResourceKind } from '../../ui/resources'
import { Said } from '../../ui/Said'
import { Tabs, useTab } from '../../ui/Tabs'
import { amount, plain, shortCommit, shortDigest } from '../../ui/text'
import { Values } from '../../ui/Values'
import { Closed } from './Closed'
import { Configured } from './Configured'
import { Delivery } from './Delivery'
import { History } from './History'
import { Guard, Lever, Levers } from './Levers'
import { Objects, Troubled } from './Objects'
import { Tests } from './Tests'

// Logs come from the cluster, which other tabs do without.
const Diff = lazy(() => import('./Diff'))
const Logs = lazy(() => import('./Logs'))
const Why = lazy(() => import('./Why'))
const ClusterEvents = lazy(() => import('./ClusterEvents'))
const Changes = lazy(() => import('../../ui/Changes'))
const Deleted = lazy(() => import('../../ui/Deleted'))

const kind = kindNamed('Service') as ResourceKind

// In these states the cluster itself is asked for the cause.
const asksCluster = ['failed', 'degraded', 'progressing', 'waiting']

const tabs = ['overview', 'objects', 'diff', 'logs', 'events', 'history', 'tests', 'config', 'yaml']

export function Service() {
  const { name = '' } = useParams()
  const got = useLive(ServiceService.method.getService, { name })
  const tab = useTab(tabs)
  const fresh = useFreshness([got])
  const service = got.data?.service
  const again = () => void got.refetch()
  if (got.error && (!service || isMissing(got.error)))
    return (
      <>
        <Title tab={name}>{plain(name, 80)}</Title>
        <Failed failure={failureOf(got.error)} again={again} />
        {isMissing(got.error) && (
          <Part what="its history">
            <Deleted of={kind} name={name} back={again} />
          </Part>
        )}
        <p>
          <Link to="/services">All services</Link>
        </p>
      </>
    )
  if (!service)
    return (
      <>
        <Title tab={name}>{plain(name, 80)}</Title>
        <Waiting what="the service" />
      </>
    )
  const state = stateOf(service.status?.state)
  const cluster = service.spec?.cluster ?? ''
  return (
    <>
      <div className="head">
        <Title tab={`${state === 'failed' || state === 'degraded' ? '✕ ' : ''}${name}`}>
          {name} <State of={state} />
        </Title>
        <span className="quiet">
          <Age of={service.status?.stateSince} />
          {cluster && (
            <>
              {' · '}
              <Link to={`/cluster/${cluster}`}>{cluster}</Link>
            </>
          )}
          {service.spec?.project && ` · ${service.spec.project}`}
        </span>
        <Levers of={service} changed={again} />
      </div>
      <Stale of={fresh} again={again} />
      <Lever of={service} />
      <Closed of={service} />
      <Guard of={service} changed={again} />
      <div className={fresh.stale || fresh.failure ? 'stale' : ''}>
        <Truths of={service} />
      </div>
      {service.status?.stateMessage && (
        <section className="panel" aria-label="Why">
          <h2>Why</h2>
          <pre>
            <Said of={service.status.stateMessage} />
          </pre>
          {cluster && asksCluster.includes(state) && (
            <Part what="a look into the cluster">
              <Why of={service} />
            </Part>
          )}
        </section>
      )}
      <Tabs names={tabs} />
      {tab === 'overview' && (
        <>
          <Delivery
            service={name}
            version={`${service.metadata?.etag} ${service.status?.cluster?.report?.sequence} ${service.status?.hub?.digest}`}
          />
          <Troubled of={service} />
        </>
      )}
      {tab === 'objects' && <Objects service={name} cluster={cluster} />}
      {tab === 'diff' && (
        <Part what="the difference">
          <Diff of={service} />
        </Part>
      )}
      {tab === 'logs' && (
        <Part what="the logs">
          <Logs service={name} cluster={cluster} />
        </Part>
      )}
      {tab === 'events' && (
        <>
          {cluster && (
            <Part what="events">
              <ClusterEvents service={name} cluster={cluster} />
            </Part>
          )}
          <section className="panel" aria-label="Events of the hub">
            <h2>Events of the hub</h2>
            <EventsOf filter={`service = ${quote(name)}`} size={50} name={`${name}-events`} />
          </section>
        </>
      )}
      {tab === 'history' && (
        <>
          <History of={service} changed={again} />
          <Part what="its changes">
            <Changes of={kind} name={name} />
          </Part>
        </>
      )}
      {tab === 'tests' && <Tests service={name} changed={again} />}
      {tab === 'config' && <Values of={{ case: 'service', value: name }} />}
      {tab === 'yaml' && <Configured of={service} />}
    </>
  )
}

// What Git says, what the hub hands out, and what the cluster has: three truths, each with its own age.
function Truths({ of }: { of: Resource }) {
  const { git, hub, cluster, configProblem } = of.status ?? {}
  const report = cluster?.report
  return (
    <div className="truths">
      <section className="panel">
        <h2>Git</h2>
        <div>
          <span className="mono">{shortCommit(git?.revision?.commit) || 'nothing fetched yet'}</span>{' '}
          {git?.revision?.commitTime && <Age of={git.revision.commitTime} />}
        </div>
        <div>{plain(git?.revision?.subject ?? '', 200)}</div>
        <div className="quiet">
          {plain(git?.revision?.author ?? '', 100)} {sourceOf(of.spec)}{' '}
          {plain(followedBy(of.spec), 200) || 'default branch'} {of.spec?.path}
        </div>
        {git?.problem && (
          <div className="notice bad">
            <Said of={git.problem.message} max={600} />
          </div>
        )}
      </section>
      <section className="panel">
        <h2>Hub</h2>
        <div>
          <span className="mono">{shortCommit(hub?.revision?.commit) || 'nothing to deliver yet'}</span>{' '}
          {hub?.resolveTime && <Age of={hub.resolveTime} />}
        </div>
        {(of.spec?.sources.length ?? 0) > 0 && <div>{plain(hub?.revision?.subject ?? '', 200)}</div>}
        <div className="quiet mono">{shortDigest(hub?.digest)}</div>
        {(hub?.problem ?? configProblem) && (
          <div className="notice bad">
            <Said of={(hub?.problem ?? configProblem)?.message ?? ''} max={600} />
          </div>
        )}
      </section>
      <section className="panel">
        <h2>Cluster</h2>
        <div>
          <span className="mono">{shortCommit(report?.appliedCommit) || 'nothing applied yet'}</span>{' '}
          {report?.appliedTime && <Age of={report.appliedTime} />}
        </div>
        <div>
          {report &&
            `${report.objectsHealthy.toLocaleString()} of ${amount(report.objectsTotal, 'object')} healthy`}
          {report && report.objectsDrifted > 0 && `, ${report.objectsDrifted.toLocaleString()} drifted`}
        </div>
        <div className="quiet">
          {hub?.digest && report?.appliedDigest === hub.digest
            ? 'same content as the hub'
            : report
              ? 'not the content of the hub'
              : ''}
          {cluster?.receiveTime && (
            <>
              {' · heard '}
              <Age of={cluster.receiveTime} />
            </>
          )}
        </div>
      </section>
    </div>
  )
}
