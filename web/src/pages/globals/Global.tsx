import { useMutation, useQuery } from '@connectrpc/connect-query'
import { useRef } from 'react'
import { Link, useParams } from 'react-router'
import {
  type GlobalService,
  GlobalServiceService,
  PlannedAction,
} from '../../gen/fairlead/console/v1/global_service_service_pb'
import { failureOf, isMissing } from '../../hub/errors'
import { useLive } from '../../live/live'
import Changes from '../../ui/Changes'
import { Delete } from '../../ui/Delete'
import Deleted from '../../ui/Deleted'
import { Opened } from '../../ui/Opened'
import { Failed, Title, Waiting } from '../../ui/Panel'
import { kindNamed, manifest, type ResourceKind } from '../../ui/resources'
import { Said } from '../../ui/Said'
import { amount, plain } from '../../ui/text'
import { Says } from './Globals'

const actions: Record<number, string> = {
  [PlannedAction.CREATE]: 'created',
  [PlannedAction.UPDATE]: 'changed',
  [PlannedAction.DELETE]: 'deleted',
  [PlannedAction.DETACH]: 'detached: it stays, on its own',
  [PlannedAction.KEEP]: 'the same',
}

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
  const confirm = useMutation(GlobalServiceService.method.confirmGlobalService, { onSuccess: changed })
  const dialog = useRef<HTMLDialogElement>(null)
  const plan = preview.data
  if (preview.error && !plan)
    return <Failed failure={failureOf(preview.error)} again={() => void preview.refetch()} />
  if (!plan) return <Waiting what="what it would do now" />
  const news = plan.services.filter((s) => s.action !== PlannedAction.KEEP || s.problem)
  return (
    <section className="panel">
      <div className="head">
        <h2>What it would do now</h2>
        {plan.heldBack && plan.confirmation && (
          <button type="button" className="end" onClick={() => dialog.current?.showModal()}>
            Confirm {plan.deleted} removals
          </button>
        )}
      </div>
      <p>
        {plan.created} created, {plan.updated} changed, {plan.deleted} deleted, {plan.detached} detached,{' '}
        {plan.unchanged} the same
        {plan.heldBack && '; the guard holds the deletions back until a person confirms them'}
      </p>
      <ul className="lines">
        {news.slice(0, 200).map((s) => (
          <li key={s.name}>
            <Link to={`/service/${s.name}`}>{s.name}</Link> <span className="quiet">{s.cluster}</span>{' '}
            {actions[s.action] ?? ''}
            {s.problem && (
              <div className="notice bad">
                <Said of={s.problem} max={600} />
              </div>
            )}
            {s.diff && (
              <Opened name={s.name} summary="what changes">
                <pre>{plain(s.diff, 20_000)}</pre>
              </Opened>
            )}
          </li>
        ))}
        {news.length > 200 && <li className="quiet">and {news.length - 200} more</li>}
      </ul>
      <dialog ref={dialog} aria-label="Confirm removals">
        <h2>Delete {amount(plan.deleted, 'service')}</h2>
        <p>Their objects are removed from the clusters. Exactly these are confirmed:</p>
        <ul className="lines">
          {news
            .filter((s) => s.action === PlannedAction.DELETE)
            .slice(0, 20)
            .map((s) => (
              <li key={s.name}>
                {s.name} <span className="quiet">{s.cluster}</span>
              </li>
            ))}
        </ul>
        {confirm.error && <Failed failure={failureOf(confirm.error)} />}
        <div className="actions">
          <button
            type="button"
            disabled={confirm.isPending}
            onClick={() =>
              confirm.mutate(
                { name: of.metadata?.name ?? '', confirmation: plan.confirmation },
                { onSuccess: () => dialog.current?.close() },
              )
            }
          >
            Delete {amount(plan.deleted, 'service')}
          </button>
          <button type="button" onClick={() => dialog.current?.close()}>
            Cancel
          </button>
        </div>
      </dialog>
    </section>
  )
}
