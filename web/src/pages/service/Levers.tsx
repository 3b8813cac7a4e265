import { createClient } from '@connectrpc/connect'
import { Link } from 'react-router'
import type { Lever as PulledLever, Service } from '../../gen/fairlead/console/v1/resources_pb'
import { ServiceService } from '../../gen/fairlead/console/v1/service_service_pb'
import { SyncService } from '../../gen/fairlead/console/v1/sync_service_pb'
import { SyncMode } from '../../gen/fairlead/delivery/v1/options_pb'
import { transport } from '../../hub/transport'
import { Age } from '../../live/Age'
import { At } from '../../live/At'
import { undoOf } from '../../state/undo'
import { Ask, useLever } from '../../ui/Ask'
import { Lose, sentBy } from '../../ui/Lose'
import { Said } from '../../ui/Said'
import { amount, plain, shortCommit } from '../../ui/text'

const hub = { ...createClient(SyncService, transport), ...createClient(ServiceService, transport) }

const modes: Record<number, string> = {
  [SyncMode.DRY_RUN]: 'In dry run',
  [SyncMode.HOLD]: 'Held',
  [SyncMode.SUSPEND]: 'Suspended',
  [SyncMode.MANUAL]: 'In manual mode',
}

// Says of each lever that is pulled who pulled it, why, since when, and what ends it.
export function Lever({ of }: { of: Service }) {
  const sync = of.spec?.sync
  const mode = modes[sync?.mode ?? 0]
  if (!mode && !sync?.pin) return null
  const { mode: held, pin } = of.levers ?? {}
  return (
    <div className="notice">
      {mode && (
        <div>
          <strong>{mode}</strong>
          {!held && sync?.reason && `: ${plain(sync.reason, 300)}`}
          <Story of={held} />
        </div>
      )}
      {sync?.pin && (
        <div>
          <strong>
            {pin?.deployment ? `Rolled back to #${pin.deployment}, ` : 'Pinned to '}
            <span className="mono">{shortCommit(sync.pin)}</span>
          </strong>
          {!pin && !mode && sync.reason && `: ${plain(sync.reason, 300)}`}
          <Story of={pin} />
          {of.spec?.unpinAfter && ' Ends when the ref points to another commit.'}
        </div>
      )}
    </div>
  )
}

function Story({ of }: { of: PulledLever | undefined }) {
  if (!of) return <span className="quiet">, as files say.</span>
  return (
    <>
      {of.reason && `: ${plain(of.reason, 1024)}`}{' '}
      <span className="quiet">
        {plain(of.author, 300)} {of.sinceTime && <Age of={of.sinceTime} />}
        {of.untilTime && (
          <>
            , until <At of={of.untilTime} />
          </>
        )}
      </span>
    </>
  )
}

// A removal that looks like an accident waits for a person, who sees exactly what goes.
export function Guard({ of, changed }: { of: Service; changed: () => void }) {
  const confirm = useLever(SyncService.method.confirmPrune, changed)
  const guard = of.status?.cluster?.report?.guard
  if (!guard) return null
  const name = of.metadata?.name ?? ''
  const going = guard.sample.map((o) =>
    plain(`${o.kind} ${o.namespace ? `${o.namespace}/` : ''}${o.name}`, 300),
  )
  if (guard.removing > going.length) going.push(`and ${guard.removing - going.length} more`)
  return (
    <section className="notice bad" aria-label="Waits for a person">
      <p>
        This sync removes <strong>{guard.removing}</strong> of {amount(guard.objectsTotal, 'object')}, which
        looks like an accident. Nothing is removed until a person confirms it.
      </p>
      <ul>
        {going.map((o) => (
          <li key={o}>{o}</li>
        ))}
      </ul>
      <Lose
        key={guard.id}
        verb={`Remove ${amount(guard.removing, 'object')}`}
        title={`Remove ${amount(guard.removing, 'object')} of ${name}`}
        name={name}
        says={going}
        note="Exactly these are removed from the cluster, with the data that they hold. If the removal becomes another one, it has to be confirmed anew."
        sure={`Remove ${amount(guard.removing, 'object')}`}
        sent={sentBy(confirm, () => ({ name, guard: guard.id }))}
      />
    </section>
  )
}

// What waits: how the cluster differs from what Git says.
function behind(of: Service): string {
  const { git, cluster } = of.status ?? {}
  const applied = cluster?.report?.appliedCommit
  const newest = git?.revision?.commit
  if (!newest || !applied) return ''
  if (newest === applied) return `The cluster has what Git says, ${shortCommit(newest)}.`
  return plain(
    `Git is at ${shortCommit(newest)} "${git?.revision?.subject ?? ''}", the cluster at ${shortCommit(applied)}.`,
    300,
  )
}

const closedWays: [string, string][] = [
  ["Only if all of them let a person's sync through", 'ask'],
  ['Override them: apply what the hub has now, once. It takes the right to', 'override'],
]

export function Levers({ of, changed }: { of: Service; changed: () => void }) {
  const name = of.metadata?.name ?? ''
  const sync = useLever(SyncService.method.requestSync, changed)
  const hold = useLever(SyncService.method.holdService, changed)
  const resume = useLever(SyncService.method.resumeService, changed)
  const unpin = useLever(SyncService.method.pinService, changed)
  const mode = of.spec?.sync?.mode ?? 0
  // Resuming ends a lever; the manual mode of a file is none.
  const held = mode > SyncMode.AUTO && (mode !== SyncMode.MANUAL || of.levers?.mode !== undefined)
  const { closed = false, manualSync = false } = of.status?.windows ?? {}
  return (
    <div className="end" data-actions>
      <Ask
        key="Sync"
        verb="Sync"
        title={`Sync ${name}`}
        words={
          closed
            ? manualSync
              ? "Windows close this service, and let a person's sync through."
              : 'Windows or a freeze close this service.'
            : 'The agent renders everything anew and compares it with the cluster. It changes what differs.'
        }
        lever={sync}
        {...(closed && !manualSync ? { choices: closedWays } : {})}
        request={(_, way) => ({ name, override: way === 'override' })}
      >
        {closed && <Said of={`${of.status?.windows?.message ?? ''} `} max={1024} />}
        {behind(of)} <Link to="?tab=diff">What would change</Link>
      </Ask>
      {held ? (
        <Ask
          key="Resume"
          verb="Resume"
          title={`Resume ${name}`}
          words="What waits is applied, and changes of others in the cluster are undone."
          lever={resume}
          undo={undoOf('Resume', of, hub)}
          request={() => ({ name })}
        >
          {behind(of)} <Link to="?tab=diff">What would change</Link>
        </Ask>
      ) : (
        <Ask
          key="Hold"
          verb="Hold"
          title={`Hold ${name}`}
          words="What is applied stays, and newer revisions wait until somebody resumes the service. The reason is shown to everybody."
          wants
          lever={hold}
          undo={undoOf('Hold', of, hub)}
          choices={[
            ['Hold: newer revisions wait, and changes of others are undone', String(SyncMode.HOLD)],
            ['Suspend: the agent only looks, and undoes nothing', String(SyncMode.SUSPEND)],
            ['Dry run: the agent reports what it would change', String(SyncMode.DRY_RUN)],
            ["Manual: newer revisions wait for a person's sync", String(SyncMode.MANUAL)],
          ]}
          ends
          request={(reason, mode, until) => ({ name, reason, mode: Number(mode) as SyncMode, ...until })}
        >
          {behind(of)}
        </Ask>
      )}
      {!of.spec?.sync?.pin && of.status?.cluster?.report?.appliedCommit && (
        <Ask
          key="Pin"
          verb="Pin"
          title={`Pin ${name}`}
          words={`The service stays at commit ${shortCommit(of.status.cluster.report.appliedCommit)}, which is applied now, wherever its ref points.`}
          wants
          lever={unpin}
          undo={undoOf('Pin', of, hub)}
          choices={[
            ['Until the ref points to another commit', 'next'],
            ['Until somebody unpins it', 'stay'],
          ]}
          ends
          request={(reason, way, until) => ({
            name,
            reason,
            ...until,
            commit: of.status?.cluster?.report?.appliedCommit ?? '',
            untilNext: way === 'next',
          })}
        />
      )}
      {of.spec?.sync?.pin && (
        <Ask
          key="Unpin"
          verb="Unpin"
          title={`Unpin ${name}`}
          words="The service follows its ref again."
          lever={unpin}
          undo={undoOf('Unpin', of, hub)}
          request={(reason) => ({ name, commit: '', reason })}
        >
          {behind(of)}
        </Ask>
      )}
    </div>
  )
}
