import { useInfiniteQuery } from '@connectrpc/connect-query'
import { useEffect } from 'react'
import { Link, useSearchParams } from 'react-router'
import { type ClusterObject, ObjectService } from '../../gen/fairlead/console/v1/object_service_pb'
import type { Service } from '../../gen/fairlead/console/v1/resources_pb'
import { SyncService } from '../../gen/fairlead/console/v1/sync_service_pb'
import type { ObjectReport } from '../../gen/fairlead/delivery/v1/delivery_pb'
import { failureOf } from '../../hub/errors'
import { Age } from '../../live/Age'
import { every } from '../../live/asked'
import { State } from '../../state/State'
import { healthState } from '../../state/states'
import { Ask, handOnFocus, useLever } from '../../ui/Ask'
import { useChange } from '../../ui/address'
import { useChosen } from '../../ui/chosen'
import { Export } from '../../ui/Export'
import { HeldSays } from '../../ui/HeldSays'
import { useHeld } from '../../ui/held'
import { Opened } from '../../ui/Opened'
import { Failed, Waiting } from '../../ui/Panel'
import { Said } from '../../ui/Said'
import { Search } from '../../ui/Search'
import { amount, plain } from '../../ui/text'
import { explored, grouped, groupsOf, mostAtOnce, syncedAs, untroubled } from './grouped'
import { Branches, OwnedSays, useOwned } from './Tree'

// The objects that are not well, as the report tells of them.
export function Troubled({ of }: { of: Service }) {
  const report = of.status?.cluster?.report
  const list = report?.objects ?? []
  if (!report) return <p>The cluster has not told anything of this service yet.</p>
  if (list.length === 0) return <p>{untroubled(report)}</p>
  return (
    <>
      <Export
        name={`${of.metadata?.name}-troubled`}
        columns={['group', 'kind', 'namespace', 'name', 'health', 'message', 'rival', 'fields']}
        rows={list.map((o) => ({
          group: o.group,
          kind: o.kind,
          namespace: o.namespace,
          name: o.name,
          health: o.health,
          message: o.message,
          rival: o.rival,
          fields: o.fields.join(' '),
        }))}
      />
      <div className="table-wrap">
        <table>
          <thead>
            <tr>
              <th scope="col">Object</th>
              <th scope="col">Health</th>
              <th scope="col">Why</th>
            </tr>
          </thead>
          <tbody>
            {list.map((o) => (
              <tr key={`${o.group}/${o.kind}/${o.namespace}/${o.name}`}>
                <td className="name">
                  <Link to={explored(of.spec?.cluster ?? '', o)}>
                    {plain(`${o.kind} ${o.namespace ? `${o.namespace}/` : ''}${o.name}`, 300)}
                  </Link>
                </td>
                <td>
                  <Health of={o} />
                </td>
                <td>
                  <Reason of={o} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  )
}

function Health({ of }: { of: ObjectReport | undefined }) {
  const state = healthState[of?.health ?? ''] ?? 'unknown'
  return (
    <>
      <State of={state} /> {of?.health === 'Missing' && <span className="quiet">missing</span>}
    </>
  )
}

function Reason({ of }: { of: ObjectReport | undefined }) {
  return (
    <>
      <Said of={of?.message ?? ''} max={1000} />
      {of?.rival && (
        <div className="quiet">
          changed by {plain(of.rival, 200)}: <span className="mono">{plain(of.fields.join(' '), 400)}</span>
        </div>
      )}
    </>
  )
}

// Pages of a thousand objects that are asked for without a person's wish.
const byItself = 5

// Pages beyond those that a person has asked for. An address may say anything.
const pagesIn = (text: string | null) => Math.min(Math.max(0, Math.trunc(Number(text)) || 0), 1000)

const nameOf = ({ object: o }: ClusterObject) => `${o?.group} ${o?.kind} ${o?.namespace}/${o?.name}`

// All objects, by kind; a kind with many is opened on demand.
export function Objects({ service, cluster }: { service: string; cluster: string }) {
  const [chosen, setChosen] = useChosen()
  const [params] = useSearchParams()
  const change = useChange()
  const as = params.get('as') ?? 'kind'
  const find = params.get('find') ?? ''
  const more = pagesIn(params.get('more'))
  const list = useInfiniteQuery(
    ObjectService.method.listObjects,
    { service, pageSize: 1000, pageToken: '' },
    {
      pageParamKey: 'pageToken',
      getNextPageParam: (last) => last.nextPageToken || undefined,
      // Of several pages each is asked for again.
      refetchInterval: ({ state }) => every * Math.max(1, state.data?.pages.length ?? 1),
    },
  )
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = list
  const pages = list.data?.pages.length ?? 0
  useEffect(() => {
    if (hasNextPage && !isFetchingNextPage && pages < byItself + more) void fetchNextPage()
  }, [hasNextPage, isFetchingNextPage, fetchNextPage, pages, more])
  const objects = list.data?.pages.flatMap((p) => p.objects) ?? []
  const owned = useOwned(cluster, objects, as === 'tree')
  const words = find.slice(0, 256).toLowerCase().split(/\s+/)
  const fitting = objects.filter((o) => {
    const text = `${o.object?.kind} ${o.object?.namespace} ${o.object?.name}`.toLowerCase()
    return words.every((w) => text.includes(w))
  })
  const held = useHeld(
    `${as}\n${find}\n${pages}`,
    grouped(fitting, as).flatMap((g) => g.list),
    nameOf,
  )
  // A page that failed is asked for again.
  const showMore = () => {
    if (pages < byItself + more) return void fetchNextPage()
    change((to) => to.set('more', String(more + 1)), { replace: true })
  }
  if (list.error && !list.data)
    return <Failed failure={failureOf(list.error)} again={() => void list.refetch()} />
  if (!list.data) return <Waiting what="objects" />
  if (objects.length === 0) return <p>The cluster has not told which objects this service has.</p>
  return (
    <div className="panel">
      <p className="quiet">
        {amount(objects.length, 'object')}, as of <Age of={objects[0]?.observedTime} /> ago
      </p>
      <div className="actions">
        <Search name="find" label="Find an object" hint="kind, namespace or name" />
        <select
          aria-label="Show as"
          value={as}
          onChange={(e) => change((to) => to.set('as', e.target.value))}
        >
          <option value="kind">by kind</option>
          <option value="tree">by kind, with what the cluster made of them</option>
          <option value="namespace">by namespace and kind</option>
          <option value="wave">by wave</option>
        </select>
        <Export
          name={`${service}-objects`}
          columns={['group', 'kind', 'namespace', 'name', 'wave', 'health', 'message']}
          rows={fitting.map(({ object: o, report: r }) => ({
            group: o?.group ?? '',
            kind: o?.kind ?? '',
            namespace: o?.namespace ?? '',
            name: o?.name ?? '',
            wave: String(o?.wave ?? 0),
            health: r?.health ?? '',
            message: r?.message ?? '',
          }))}
        />
      </div>
      {as === 'tree' && <OwnedSays of={owned} />}
      <div ref={held.ref}>
        {groupsOf(held.rows, as).map(({ kind, list: of, worst }) => (
          <Opened
            key={kind}
            name={kind}
            byItself={of.length <= 10 || worst !== 'healthy'}
            summary={
              <>
                <State of={worst} /> {plain(kind, 120)} {of.length > 1 && of.length}
              </>
            }
          >
            <ul className="lines">
              {of.slice(0, 500).map((o) => (
                <li key={nameOf(o)} className={held.waiting?.gone.has(nameOf(o)) ? 'stale' : undefined}>
                  <input
                    type="checkbox"
                    aria-label={`Choose ${syncedAs(o.object)}`}
                    checked={chosen.has(syncedAs(o.object))}
                    onChange={(e) => {
                      const next = new Set(chosen)
                      if (e.target.checked) next.add(syncedAs(o.object))
                      else next.delete(syncedAs(o.object))
                      setChosen(next)
                    }}
                  />{' '}
                  <Health of={o.report} />{' '}
                  <Link to={explored(cluster, o.object)}>
                    {plain(`${o.object?.namespace ? `${o.object.namespace}/` : ''}${o.object?.name}`, 300)}
                  </Link>{' '}
                  {o.object?.wave ? <span className="quiet">wave {o.object.wave}</span> : null}{' '}
                  {o.object?.leaving && <span className="quiet">{plain(o.object.leaving, 300)}</span>}{' '}
                  <span className="quiet">
                    <Reason of={o.report} />
                  </span>
                  {as === 'tree' && <Branches of={owned} object={o} cluster={cluster} />}
                </li>
              ))}
              {of.length > 500 && <li className="quiet">and {of.length - 500} more</li>}
            </ul>
          </Opened>
        ))}
        <HeldSays {...held} />
      </div>
      <SyncChosen service={service} chosen={chosen} clear={() => setChosen(new Set())} />
      {list.hasNextPage && (
        <button type="button" disabled={isFetchingNextPage} onClick={showMore}>
          Show more
        </button>
      )}
    </div>
  )
}

// Syncs some objects and leaves the others as they are, like `fairlead sync service NAME --only`.
function SyncChosen({
  service,
  chosen,
  clear,
}: {
  service: string
  chosen: ReadonlySet<string>
  clear: () => void
}) {
  const sync = useLever(SyncService.method.requestSync, clear)
  // The answer to a sync of others says nothing of these. A sync that is taken in chooses none, and its answer stays.
  const { reset } = sync
  useEffect(() => {
    if (chosen.size > 0) reset()
  }, [chosen, reset])
  // No objects would mean all of them.
  if (chosen.size === 0)
    return sync.done ? (
      <p className="quiet" role="status">
        The hub has taken it in.
      </p>
    ) : null
  const names = [...chosen]
  const tooMany = chosen.size > mostAtOnce
  return (
    <div className="notice actions chosen">
      <span>{chosen.size === 1 ? '1 object is' : `${chosen.size} objects are`} chosen</span>
      {tooMany ? (
        <span>at most {mostAtOnce} are synced at once: sync the service, or choose fewer</span>
      ) : (
        <Ask
          verb="Sync these"
          title={`Sync ${names.length === 1 ? names[0] : `${names.length} objects`} of ${service}`}
          words="The agent applies these objects as the hub has them now, and no others. Nothing is removed and no hook runs."
          lever={sync}
          request={() => ({ name: service, only: names })}
        >
          {plain(names.join(', '), 2000)}
        </Ask>
      )}
      <button
        type="button"
        onClick={(e) => {
          handOnFocus(e.currentTarget, null)
          clear()
        }}
      >
        Choose none
      </button>
    </div>
  )
}
