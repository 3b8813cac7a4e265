import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { useQuery } from '@connectrpc/connect-query'
import { keepPreviousData } from '@tanstack/react-query'
import { useSearchParams } from 'react-router'
import { AuditService } from '../../gen/fairlead/console/v1/audit_service_pb'
import { hubNow } from '../../hub/clock'
import { failureOf } from '../../hub/errors'
import { useFreshness } from '../../live/asked'
import { When } from '../../live/When'
import { State } from '../../state/State'
import { Export } from '../../ui/Export'
import { Opened } from '../../ui/Opened'
import { Empty, Pager, usePages } from '../../ui/Pager'
import { Failed, Stale, Waiting } from '../../ui/Panel'
import { Said } from '../../ui/Said'
import { isoOf, plain } from '../../ui/text'

const size = 100
const fields = ['actor', 'action', 'cluster'] as const

// Who did what, from where, and what it changed. Administrators see it.
export function Audit() {
  const [params, setParams] = useSearchParams()
  const [actor, action, cluster] = fields.map((f) => params.get(f) ?? '') as [string, string, string]
  // An address may say anything; the trail has no ten years.
  const hours = Math.min(Number(params.get('hours') ?? 0), 87_600)
  // The minute keeps the question the same while the page is open.
  const since =
    hours > 0
      ? { since: timestampFromDate(new Date(Math.floor(hubNow() / 60_000 - hours * 60) * 60_000)) }
      : {}
  const pages = usePages(`${actor}\n${action}\n${cluster}\n${hours}`)
  const list = useQuery(
    AuditService.method.listAuditEvents,
    { filter: { actor, action, cluster, ...since }, pageSize: size, pageToken: pages.token },
    { placeholderData: keepPreviousData },
  )
  const fresh = useFreshness([list])
  const events = list.data?.events ?? []
  const rows = events.map((e) => ({
    time: isoOf(e.time),
    actor: `${e.actor?.kind ?? ''}:${e.actor?.name ?? ''}`,
    action: e.action,
    resource: [e.resource, e.namespace, e.name].filter(Boolean).join('/'),
    cluster: e.cluster,
    code: String(e.code || ''),
    remote: e.remote,
    reason: e.reason,
    before: e.before,
    after: e.after,
    trace: e.traceId,
  }))
  return (
    <>
      <form
        className="actions"
        key={`${actor}${action}${cluster}${hours}`}
        onSubmit={(e) => {
          e.preventDefault()
          const typed = new FormData(e.currentTarget)
          const next = new URLSearchParams({ tab: 'audit' })
          for (const f of [...fields, 'hours']) {
            const value = String(typed.get(f) ?? '').trim()
            if (value) next.set(f, value)
          }
          setParams(next)
        }}
      >
        <input name="actor" data-search defaultValue={actor} placeholder="who: user:ada" aria-label="Who" />
        <input name="action" defaultValue={action} placeholder="what: pin.set" aria-label="What" />
        <input name="cluster" defaultValue={cluster} placeholder="cluster" aria-label="Cluster" />
        <select name="hours" defaultValue={String(hours || '')} aria-label="Since">
          <option value="">all that is kept</option>
          <option value="1">the last hour</option>
          <option value="24">the last day</option>
          <option value="168">the last week</option>
        </select>
        <button type="submit">Filter</button>
        <Export name="audit" columns={Object.keys(rows[0] ?? {})} rows={rows} />
      </form>
      {list.error && !list.data && (
        <Failed failure={failureOf(list.error)} again={() => void list.refetch()} />
      )}
      {list.data && <Stale of={fresh} again={() => void list.refetch()} />}
      {list.isPending && <Waiting what="the audit trail" />}
      {list.data && events.length === 0 && (
        <Empty pages={pages}>
          <p>Nothing fits.</p>
        </Empty>
      )}
      {events.length > 0 && (
        <div className={fresh.stale || fresh.failure ? 'table-wrap stale' : 'table-wrap'}>
          <table>
            <thead>
              <tr>
                {['When', 'Who', 'What', 'On', 'From', 'Why'].map((t) => (
                  <th scope="col" key={t}>
                    {t}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {events.map((e) => (
                <tr key={e.id}>
                  <td>
                    <When of={e.time} />
                  </td>
                  <td>
                    {plain(`${e.actor?.kind ?? ''} ${e.actor?.name ?? ''}`, 300)}
                    {e.actor?.groups.length ? (
                      <div className="quiet">{plain(e.actor.groups.join(', '), 300)}</div>
                    ) : null}
                  </td>
                  <td>
                    {e.code >= 400 && <State of="failed" word={String(e.code)} />} {plain(e.action, 100)}{' '}
                    {plain(e.verb, 40)}
                  </td>
                  <td>
                    {plain([e.resource, e.namespace, e.name].filter(Boolean).join('/'), 300)}{' '}
                    <span className="quiet">{plain(e.cluster, 63)}</span>
                  </td>
                  <td className="mono">{plain(e.remote, 64)}</td>
                  <td>
                    <Said of={e.reason} max={600} />
                    {(e.before || e.after) && (
                      <Opened name={e.id} summary="before and after">
                        <pre>
                          <del>{plain(e.before, 20_000)}</del>
                          {'\n'}
                          <ins>{plain(e.after, 20_000)}</ins>
                        </pre>
                      </Opened>
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      <Pager pages={pages} next={list.data?.nextPageToken ?? ''} size={size} total={undefined} />
    </>
  )
}
