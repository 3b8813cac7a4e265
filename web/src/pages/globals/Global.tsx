import { useQuery } from '@connectrpc/connect-query'
import { Link, useParams } from 'react-router'
import {
  type GlobalService,
  GlobalServiceService,
  PlannedAction,
} from '../../gen/fairlead/console/v1/global_service_service_pb'
import { failureOf, isMissing } from '../../hub/errors'
import { clock } from '../../live/ages'
import { useFreshness } from '../../live/asked'
import { useLive } from '../../live/live'
import { useLever } from '../../ui/Ask'
import Changes from '../../ui/Changes'
import { Delete } from '../../ui/Delete'
import Deleted from '../../ui/Deleted'
import { lossOfPlan } from '../../ui/deletion'
import { Lose, sentBy } from '../../ui/Lose'
import { seesAll } from '../../ui/losses'
import { Failed, Stale, Title, Waiting } from '../../ui/Panel'
import { Planned } from '../../ui/Planned'
import { kindNamed, manifest, type ResourceKind } from '../../ui/resources'
import { amount, plain } from '../../ui/text'
import { Says } from './Globals'

const kind = kindNamed('GlobalService') as ResourceKind

// A global service, what it would do now on each cluster, and the removals that wait for a person.
export function Global() {
  const { name = '' } = useParams()
  const got = useLive(GlobalServiceService.method.getGlobalService, { name })
  const missing = isMissing(got.error)
  const of = missing ? undefined : got.data?.globalService
  return (
    <>
      <div className="head">
        <Title tab={name}>{plain(name, 80)}</Title>
        {of && <Says of={of} />}
        {of && (
          <span className="end" data-actions>
            <Link className="button" to={`/apply?kind=GlobalService&name=${encodeURIComponent(name)}`}>
              Edit
            </Link>
            <Delete of={kind} name={name} to="/globalservices" />
          </span>
        )}
      </div>
      {got.error && !of ? <Failed failure={failureOf(got.error)} again={() => void got.refetch()} /> : null}
      {missing && <Deleted of={kind} name={name} back={() => void got.refetch()} />}
      {got.isPending && <Waiting what="the global service" />}
      {of && <Plan of={of} changed={() => void got.refetch()} />}
      {of && (
        <section className="panel">
          <h2>YAML</h2>
          <pre>{plain(manifest(kind, of), 1 << 18)}</pre>
        </section>
      )}
      {of && <Changes of={kind} name={name} />}
    </>
  )
}

function Plan({ of, changed }: { of: GlobalService; changed: () => void }) {
  const preview = useQuery(
    GlobalServiceService.method.previewGlobalService,
    { globalService: of },
    { refetchInterval: 30_000 },
  )
  const again = () => void preview.refetch()
  const confirm = useLever(GlobalServiceService.method.confirmGlobalService, () => {
    changed()
    again()
  })
  const fresh = useFreshness([preview])
  const name = of.metadata?.name ?? ''
  const plan = preview.data
  if (preview.error && !plan) return <Failed failure={failureOf(preview.error)} again={again} />
  if (!plan) return <Waiting what="what it would do now" />
  const gone = plan.services.filter((s) => s.action === PlannedAction.DELETE).map((s) => s.name)
  return (
    <section className="panel" aria-label="What it would do now">
      <div className="head">
        <h2>What it would do now</h2>
        <span className="quiet">asked {clock(preview.dataUpdatedAt)}</span>
        {plan.heldBack && plan.confirmation && (
          <span className="end">
            <Lose
              // The question is one of these services, and goes with them.
              key={`${plan.deleted} ${gone.join(' ')}`}
              verb={`Delete ${amount(plan.deleted, 'service')}`}
              title={`Delete ${amount(plan.deleted, 'service')} of ${name}`}
              name={name}
              loss={async () => lossOfPlan(plan, await seesAll())}
              note="Only what the guard holds back now is confirmed. If that changes meanwhile, the hub refuses: look again."
              sure={`Delete ${amount(plan.deleted, 'service')}`}
              sent={sentBy(confirm, () => ({ name, confirmation: plan.confirmation }))}
            />
          </span>
        )}
      </div>
      {fresh.failure && <Stale of={fresh} again={again} />}
      <div className={fresh.failure ? 'stale' : ''}>
        <Planned of={plan} name={name} />
      </div>
    </section>
  )
}
