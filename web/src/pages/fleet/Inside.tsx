import { Link } from 'react-router'
import { ClusterViewService } from '../../gen/fairlead/console/v1/cluster_view_service_pb'
import { failureOf } from '../../hub/errors'
import { Age } from '../../live/Age'
import { useFreshness } from '../../live/asked'
import { useLive } from '../../live/live'
import { figureColumns, follows, summed } from '../../state/views'
import { Export } from '../../ui/Export'
import { FigureCells } from '../../ui/Figures'
import { Failed, Stale, Waiting } from '../../ui/Panel'
import { Said } from '../../ui/Said'
import { plain } from '../../ui/text'

const worst = 8

// What agents see in the clusters: sums by a label, and the clusters with the most trouble. No cluster is asked.
export function Inside({ group }: { group: string }) {
  const list = useLive(
    ClusterViewService.method.listClusterViews,
    {
      orderBy: 'pods.not_ready desc, nodes.not_ready desc, warnings.hour desc',
      pageSize: worst,
      groupBy: group ? [`labels.${group}`] : [],
    },
    { keep: true },
  )
  const fresh = useFreshness([list])
  const again = () => void list.refetch()
  if (list.error && !list.data)
    return (
      <section className="panel" aria-label="In the clusters">
        <h2>In the clusters</h2>
        <Failed failure={failureOf(list.error)} again={again} />
      </section>
    )
  if (!list.data)
    return (
      <section className="panel" aria-label="In the clusters">
        <h2>In the clusters</h2>
        <Waiting what="what agents see" />
      </section>
    )
  if (list.data.totalSize === 0) return null
  const troubled = list.data.views.filter((v) => figureColumns.some((c) => c.bad(v.figures)))
  return (
    <section className="panel" aria-label="In the clusters">
      <div className="head">
        <h2>In the clusters</h2>
        <span className="end">
          <Link to="/clusters?tab=figures">All clusters by figures</Link>
          <Export
            name="fleet"
            columns={[group || 'all', 'clusters', 'away', ...figureColumns.map((c) => c.title)]}
            rows={list.data.sums.map((s) => ({
              [group || 'all']: group ? (s.values[0] ?? '') : 'the fleet',
              clusters: String(s.clusters),
              away: String(s.away),
              ...Object.fromEntries(figureColumns.map((c) => [c.title, c.show(summed(s.figures))])),
            }))}
          />
        </span>
      </div>
      <Stale of={fresh} again={again} />
      <section
        aria-label="Sums"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: nothing in the table takes the focus, and arrows scroll it
        tabIndex={0}
        className={fresh.stale || fresh.failure ? 'table-wrap stale' : 'table-wrap'}
      >
        <table>
          <thead>
            <tr>
              <th scope="col">{group || 'All'}</th>
              <th scope="col" className="number">
                Clusters
              </th>
              {figureColumns.map((c) => (
                <th key={c.order} scope="col" className="number">
                  {c.title}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {list.data.sums.map((s) => (
              <tr key={s.values.join(' ')}>
                <td className="name">{group ? plain(s.values[0] ?? '', 63) || 'without it' : 'the fleet'}</td>
                <td className="number" data-label="Clusters">
                  {s.clusters.toLocaleString()}
                  {s.away > 0 && <div className="cause">{s.away.toLocaleString()} away</div>}
                  {s.clusters > s.viewed && (
                    <div className="cause">{(s.clusters - s.viewed).toLocaleString()} not known</div>
                  )}
                </td>
                <FigureCells of={summed(s.figures)} />
              </tr>
            ))}
          </tbody>
        </table>
      </section>
      {list.data.sums.some((s) => s.away > 0) && (
        <p className="quiet">
          The last figures of clusters that are away, or whose agents push no views, count.
        </p>
      )}
      {troubled.length > 0 && (
        <>
          <h3>The most trouble</h3>
          <ul className="lines">
            {troubled.map((v) => (
              <li key={v.cluster} className={follows(v) ? '' : 'away'}>
                <Link to={`/cluster/${v.cluster}`}>{plain(v.cluster, 63)}</Link>{' '}
                {figureColumns
                  .filter((c) => c.bad(v.figures))
                  .map((c) => `${c.title.toLowerCase()}: ${c.show(v.figures)}`)
                  .join(', ')}
                {v.unfollowed && (
                  <span className="quiet">
                    {' '}
                    · <Said of={v.unfollowed} max={300} />
                  </span>
                )}
                {!v.connected && (
                  <span className="quiet">
                    {' '}
                    · as of <Age of={v.lastSeenTime} /> ago, not connected
                  </span>
                )}
              </li>
            ))}
          </ul>
        </>
      )}
    </section>
  )
}
