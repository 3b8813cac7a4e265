import { useInfiniteQuery } from '@connectrpc/connect-query'
import { useEffect, useState } from 'react'
import { Link } from 'react-router'
import { ObjectService } from '../../gen/fairlead/console/v1/object_service_pb'
import type { Service } from '../../gen/fairlead/console/v1/resources_pb'
import type { ObjectReport } from '../../gen/fairlead/delivery/v1/delivery_pb'
import { failureOf } from '../../hub/errors'
import { Age } from '../../live/Age'
import { State } from '../../state/State'
import { healthState } from '../../state/states'
import { Export } from '../../ui/Export'
import { Failed, Waiting } from '../../ui/Panel'
import { plain } from '../../ui/text'
import { grouped } from './grouped'

// The objects that are not well, as the report tells of them.
export function Troubled({ of }: { of: Service }) {
  const report = of.status?.cluster?.report
  const list = report?.objects ?? []
  if (!report) return <p>The cluster has not told anything of this service yet.</p>
  if (list.length === 0) return <p>All {report.objectsTotal} objects are healthy and as Git says.</p>
  return (
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
  )
}

// Where the explorer shows an object, which it finds by its kind.
const explored = (
  cluster: string,
  o: { group: string; kind: string; namespace: string; name: string } | undefined,
) =>
  `/cluster/${cluster}/explore?${new URLSearchParams({ kind: `${o?.kind}.${o?.group}`, obj: o?.namespace ? `${o.namespace}/${o.name}` : (o?.name ?? '') })}`

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
      {plain(of?.message ?? '', 1000)}
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

// All objects, by kind; a kind with many is opened on demand.
export function Objects({ service, cluster }: { service: string; cluster: string }) {
  const [find, setFind] = useState('')
  const [as, setAs] = useState('kind')
  const list = useInfiniteQuery(
    ObjectService.method.listObjects,
    { service, pageSize: 1000, pageToken: '' },
    { pageParamKey: 'pageToken', getNextPageParam: (last) => last.nextPageToken || undefined },
  )
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = list
  const pages = list.data?.pages.length ?? 0
  useEffect(() => {
    if (hasNextPage && !isFetchingNextPage && pages < byItself) void fetchNextPage()
  }, [hasNextPage, isFetchingNextPage, fetchNextPage, pages])
  if (list.error && !list.data)
    return <Failed failure={failureOf(list.error)} again={() => void list.refetch()} />
  if (!list.data) return <Waiting what="objects" />
  const objects = list.data.pages.flatMap((p) => p.objects)
  const words = find.toLowerCase().split(/\s+/)
  const fitting = objects.filter((o) => {
    const text = `${o.object?.kind} ${o.object?.namespace} ${o.object?.name}`.toLowerCase()
    return words.every((w) => text.includes(w))
  })
  if (objects.length === 0) return <p>The cluster has not told which objects this service has.</p>
  return (
    <div className="panel">
      <p className="quiet">
        {objects.length} objects, as of <Age of={objects[0]?.observedTime} /> ago
      </p>
      <div className="actions">
        <input
          type="search"
          data-search
          aria-label="Find an object"
          placeholder="kind, namespace or name"
          value={find}
          onChange={(e) => setFind(e.target.value)}
        />
        <select aria-label="Show as" value={as} onChange={(e) => setAs(e.target.value)}>
          <option value="kind">by kind</option>
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
      {grouped(fitting, as).map(({ kind, list: of, worst }) => (
        <details key={kind} open={of.length <= 10 || worst !== 'healthy'}>
          <summary>
            <State of={worst} /> {plain(kind, 120)} {of.length > 1 && of.length}
          </summary>
          <ul className="lines">
            {of.slice(0, 500).map((o) => (
              <li key={`${o.object?.namespace}/${o.object?.name}`}>
                <Health of={o.report} />{' '}
                <Link to={explored(cluster, o.object)}>
                  {plain(`${o.object?.namespace ? `${o.object.namespace}/` : ''}${o.object?.name}`, 300)}
                </Link>{' '}
                {o.object?.wave ? <span className="quiet">wave {o.object.wave}</span> : null}{' '}
                {o.object?.leaving && <span className="quiet">{plain(o.object.leaving, 300)}</span>}{' '}
                <span className="quiet">
                  <Reason of={o.report} />
                </span>
              </li>
            ))}
            {of.length > 500 && <li className="quiet">and {of.length - 500} more</li>}
          </ul>
        </details>
      ))}
      {list.hasNextPage && (
        <button type="button" onClick={() => void list.fetchNextPage()}>
          Show more
        </button>
      )}
    </div>
  )
}
