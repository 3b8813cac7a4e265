import { SyncService } from '../gen/fairlead/console/v1/sync_service_pb'
import {
  type Freeze,
  type SyncWindow,
  WindowAction,
  WindowDrift,
} from '../gen/fairlead/delivery/v1/windows_pb'
import { Age } from '../live/Age'
import { age } from '../live/ages'
import { Until } from '../live/Until'
import { Ask, useLever } from './Ask'
import { Export } from './Export'
import { plain } from './text'

// The windows that a project, a cluster or a service has.
export function Windows({ of, name }: { of: SyncWindow[]; name: string }) {
  if (of.length === 0) return <p className="quiet">It has no windows of its own.</p>
  return (
    <>
      <Export
        name={`${name}-windows`}
        columns={['window', 'action', 'schedule', 'time_zone', 'duration', 'reason', 'while_closed']}
        rows={of.map((w) => ({
          window: w.name,
          action: w.action === WindowAction.DENY ? 'deny' : 'allow',
          schedule: w.schedule,
          time_zone: w.timeZone || 'UTC',
          duration: age(Number(w.duration?.seconds ?? 0) * 1000),
          reason: w.reason,
          while_closed: meanwhile(w),
        }))}
      />
      <div className="table-wrap">
        <table>
          <thead>
            <tr>
              {['Window', 'While it is open', 'Opens', 'For', 'Why', 'While it closes'].map((t) => (
                <th scope="col" key={t}>
                  {t}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {of.map((w) => (
              <tr key={`${w.name} ${w.schedule} ${w.timeZone}`}>
                <td className="name">{plain(w.name || w.schedule, 256)}</td>
                <td>
                  {w.action === WindowAction.DENY ? 'nothing new is applied' : 'new content may be applied'}
                </td>
                <td>
                  <span className="mono">{plain(w.schedule, 256)}</span> {plain(w.timeZone || 'UTC', 64)}
                </td>
                <td>{age(Number(w.duration?.seconds ?? 0) * 1000)}</td>
                <td>{plain(w.reason, 256)}</td>
                <td>{meanwhile(w)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  )
}

function meanwhile(w: SyncWindow): string {
  const says = [
    w.drift === WindowDrift.LEAVE ? 'drift stays' : 'drift is repaired',
    ...(w.manualSync ? ["a person's sync is let through"] : []),
    ...(w.overriders.length > 0 ? [`may be overridden by ${w.overriders.join(', ')}`] : []),
  ]
  return plain(says.join('; '), 600)
}

// The freeze of a project or cluster: who froze it, why, since when, until when, and the way out.
export function Frozen({
  kind,
  name,
  of,
  changed,
}: {
  kind: 'project' | 'cluster'
  name: string
  of: Freeze | undefined
  changed: () => void
}) {
  const freeze = useLever(SyncService.method.freeze, changed)
  const unfreeze = useLever(SyncService.method.unfreeze, changed)
  if (of)
    return (
      <div className="notice">
        <strong>‖ Frozen</strong>: {plain(of.reason, 256)}{' '}
        <span className="quiet">
          {plain(of.author, 300)} <Age of={of.sinceTime} /> ago
          {of.untilTime && (
            <>
              , ends <Until of={of.untilTime} over="now" none="" />
            </>
          )}
          {of.drift === WindowDrift.LEAVE ? '; drift stays meanwhile' : ''}
        </span>{' '}
        <Ask
          verb="Unfreeze"
          title={`Unfreeze ${kind} ${name}`}
          words="What waits is applied in all its services, unless windows close them."
          lever={unfreeze}
          request={() => ({ kind, name })}
        />
      </div>
    )
  return (
    <Ask
      verb="Freeze"
      title={`Freeze ${kind} ${name}`}
      words={`What is applied of all services of this ${kind} stays, and nothing new is applied until somebody unfreezes it. The reason is shown to everybody.`}
      wants
      lever={freeze}
      choices={[
        ['What others change is undone meanwhile', String(WindowDrift.REPAIR)],
        ['What others change stays meanwhile', String(WindowDrift.LEAVE)],
      ]}
      ends
      request={(reason, drift, until) => ({
        kind,
        name,
        reason,
        drift: Number(drift) as WindowDrift,
        ...until,
      })}
    />
  )
}
