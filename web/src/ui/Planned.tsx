import { useQuery } from '@connectrpc/connect-query'
import { Link } from 'react-router'
import { AccessService } from '../gen/fairlead/console/v1/access_service_pb'
import {
  PlannedAction,
  type PlannedService,
  type PreviewGlobalServiceResponse,
} from '../gen/fairlead/console/v1/global_service_service_pb'
import { Export } from './Export'
import { Opened } from './Opened'
import { Said } from './Said'
import { amount, plain } from './text'

const actions: Record<number, string> = {
  [PlannedAction.CREATE]: 'created',
  [PlannedAction.UPDATE]: 'changed',
  [PlannedAction.DELETE]: 'deleted',
  [PlannedAction.DETACH]: 'detached: it stays, on its own',
  [PlannedAction.KEEP]: 'the same',
}

// So many are drawn; CSV and YAML have all that the hub sends.
const most = 200

// What a global service does, or would do, to the services of its clusters.
export function Planned({ of, name }: { of: PreviewGlobalServiceResponse; name: string }) {
  const { created, updated, deleted, detached, unchanged } = of
  const same = (s: PlannedService) => s.action === PlannedAction.KEEP && !s.problem
  const news = of.services.filter((s) => !same(s))
  const kept = of.services.filter(same)
  const caller = useQuery(AccessService.method.getCaller, {}, { refetchInterval: 60_000 })
  const seesAll = caller.isPending || caller.data?.administrator
  return (
    <>
      <div className="head">
        <p>
          Fits {amount(created + updated + unchanged, 'cluster')}: {created} created, {updated} changed,{' '}
          {deleted} deleted, {detached} detached, {unchanged} the same
          {of.heldBack && '; the guard holds the deletions back until a person confirms them'}
          {!seesAll && (
            <span className="quiet">
              . Only clusters and services that you may see are counted. There may be others.
            </span>
          )}
        </p>
        <span className="end">
          <Export
            name={`${name || 'globalservice'}-plan`}
            columns={['service', 'cluster', 'action', 'problem', 'diff']}
            rows={of.services.map((s) => ({
              service: s.name,
              cluster: s.cluster,
              action: (PlannedAction[s.action] ?? '').toLowerCase(),
              problem: s.problem,
              diff: s.diff,
            }))}
          />
        </span>
      </div>
      <ul className="lines">
        {news.slice(0, most).map((s) => (
          <li key={s.name}>
            {s.action === PlannedAction.CREATE ? (
              plain(s.name, 253)
            ) : (
              <Link to={`/service/${s.name}`}>{s.name}</Link>
            )}{' '}
            <span className="quiet">{plain(s.cluster, 63)}</span> {actions[s.action] ?? ''}
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
        {news.length > most && <li className="quiet">and {news.length - most} more</li>}
      </ul>
      {kept.length > 0 && (
        <Opened name="unchanged" summary="Where nothing changes">
          <p className="quiet">
            {plain(
              kept
                .slice(0, most)
                .map((s) => s.cluster)
                .join(', '),
              20_000,
            )}
            {unchanged > Math.min(kept.length, most) &&
              ` and ${(unchanged - Math.min(kept.length, most)).toLocaleString()} more`}
          </p>
        </Opened>
      )}
    </>
  )
}
