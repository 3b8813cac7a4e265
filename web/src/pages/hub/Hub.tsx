import { useMutation, useQuery } from '@connectrpc/connect-query'
import { Link } from 'react-router'
import { AdminService } from '../../gen/fairlead/console/v1/admin_service_pb'
import type { AgentConfig } from '../../gen/fairlead/console/v1/agent_config_service_pb'
import type { Alert } from '../../gen/fairlead/console/v1/alert_service_pb'
import { type Sink, SinkService } from '../../gen/fairlead/console/v1/sink_service_pb'
import type { ViewSet } from '../../gen/fairlead/console/v1/view_set_service_pb'
import { failureOf } from '../../hub/errors'
import { Age } from '../../live/Age'
import { State } from '../../state/State'
import { AlertSays } from '../../ui/AlertSays'
import { useLever } from '../../ui/Ask'
import { Lose, sentBy } from '../../ui/Lose'
import { Failed, Title, Waiting } from '../../ui/Panel'
import { Resources } from '../../ui/Resources'
import { kindAt, type ResourceKind } from '../../ui/resources'
import { Said } from '../../ui/Said'
import { Tabs, useTab } from '../../ui/Tabs'
import { amount, plain } from '../../ui/text'
import { Condition } from './Condition'
import { Gitcaches } from './Gitcaches'
import { Tunnels } from './Tunnels'

const tabs = ['overview', 'gitcaches', 'tunnels']

export function Hub() {
  const tab = useTab(tabs)
  return (
    <>
      <Title tab="Hub">Hub</Title>
      <Tabs names={tabs} />
      {tab === 'overview' && (
        <>
          <Condition />
          <Removals />
          <Resources<Alert> of={kindAt('alert') as ResourceKind} say={(a) => <AlertSays of={a} />} />
          <Resources<Sink> of={kindAt('sink') as ResourceKind} say={(s) => <SinkSays of={s} />} />
          <Resources<AgentConfig>
            of={kindAt('agentconfig') as ResourceKind}
            say={(c) => <ConfigSays of={c} />}
          />
          <Resources<ViewSet> of={kindAt('viewset') as ResourceKind} say={(s) => <ViewSetSays of={s} />} />
        </>
      )}
      {tab === 'gitcaches' && <Gitcaches />}
      {tab === 'tunnels' && <Tunnels />}
    </>
  )
}

// Removals that the hub holds because they look like an accident.
function Removals() {
  const got = useQuery(AdminService.method.getRemovals, {})
  const confirm = useLever(AdminService.method.confirmRemovals, () => void got.refetch())
  if (got.error && !got.data) {
    const failure = failureOf(got.error)
    return failure.code === 'PermissionDenied' ? null : (
      <Failed failure={failure} again={() => void got.refetch()} />
    )
  }
  if (!got.data) return <Waiting what="removals that are held" />
  const { holdTime: held, reason, clusters, id } = got.data
  return (
    <section className="panel">
      <h2>Removals</h2>
      {!held && <p>Nothing is held back: what leaves the catalog is removed from its cluster.</p>}
      {held && (
        <>
          <div className="notice bad">
            <Said of={reason} /> Since <Age of={held} />.
          </div>
          <ul className="lines">
            {clusters.map((c) => (
              <li key={c.cluster}>
                <Link to={`/cluster/${c.cluster}`}>{c.cluster}</Link> {plain(c.services.join(', '), 600)}
              </li>
            ))}
          </ul>
          <Lose
            key={id}
            verb="Remove these from their clusters"
            title={`Remove ${amount(
              clusters.reduce((n, c) => n + c.services.length, 0),
              'service',
            )} from ${amount(clusters.length, 'cluster')}`}
            name=""
            says={clusters.map((c) => `${c.cluster}: ${c.services.join(', ')}`)}
            note="Their objects are deleted in the clusters, with the data that they hold. Exactly those that are listed are confirmed."
            sure="Remove these from their clusters"
            sent={sentBy(confirm, () => ({ id }))}
          />
        </>
      )}
    </section>
  )
}

function SinkSays({ of }: { of: Sink }) {
  const test = useMutation(SinkService.method.testSink)
  const problem = of.status?.problem
  return (
    <>
      <State of={problem ? 'failed' : 'healthy'} word={of.spec?.to.case ?? ''} /> last sent{' '}
      <Age of={of.status?.sendTime} />
      {problem && (
        <div className="cause">
          <Said of={problem.message} max={600} />
        </div>
      )}{' '}
      <button
        type="button"
        disabled={test.isPending}
        onClick={() => test.mutate({ name: of.metadata?.name ?? '' })}
      >
        Send a test
      </button>{' '}
      {test.isSuccess && <span role="status">sent</span>}
      {test.error && <Failed failure={failureOf(test.error)} />}
    </>
  )
}

// In how many clusters a configuration of agents is in force, and which agents went back to an earlier one.
function ConfigSays({ of }: { of: AgentConfig }) {
  const { clusters = 0, inForce = 0, onTrial = 0, refused = [], refusedTotal = 0 } = of.status ?? {}
  return (
    <>
      <State of={refusedTotal ? 'failed' : inForce < clusters || onTrial ? 'progressing' : 'healthy'} /> in
      force in {inForce} of {amount(clusters, 'cluster')}
      {onTrial > 0 && `, ${onTrial} of them on trial`}
      {refusedTotal > 0 && (
        <div className="cause">
          {refusedTotal} went back to the last good one: {plain(refused.join(', '), 600)}
        </div>
      )}
    </>
  )
}

function ViewSetSays({ of }: { of: ViewSet }) {
  const { clusters, whole, troubles, troublesTotal } = of.status ?? {
    clusters: 0,
    whole: 0,
    troubles: [],
    troublesTotal: 0,
  }
  const [first] = troubles
  return (
    <>
      {of.spec?.of?.kind} {of.spec?.of?.group && <>of {plain(of.spec.of.group, 253)}</>}: whole at {whole} of{' '}
      {amount(clusters, 'cluster')}
      {first && (
        <div className="cause">
          {plain(first.cluster, 63)}: <Said of={first.reason} max={512} />
          {troublesTotal > 1 && ` (and ${troublesTotal - 1} more)`}
        </div>
      )}
    </>
  )
}
