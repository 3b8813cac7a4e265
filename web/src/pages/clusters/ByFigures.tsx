import { Link, useSearchParams } from 'react-router'
import { type ClusterView, ClusterViewService } from '../../gen/fairlead/console/v1/cluster_view_service_pb'
import { toFilter } from '../../hub/filter'
import { Age } from '../../live/Age'
import { useLive } from '../../live/live'
import { State } from '../../state/State'
import { figureColumns, follows } from '../../state/views'
import { Column } from '../../ui/Column'
import { Export } from '../../ui/Export'
import { FigureCells } from '../../ui/Figures'
import { questionOf, useHeld } from '../../ui/held'
import { List } from '../../ui/List'
import { Nothing } from '../../ui/Nothing'
import { Empty, Pager, usePages } from '../../ui/Pager'
import { Said } from '../../ui/Said'
import { plain } from '../../ui/text'

const size = 100
const first = 'pods.not_ready desc'

// The clusters by what agents see in them, as `fairlead top cluster` shows them.
export function ByFigures() {
  const [params] = useSearchParams()
  const filter = toFilter(params.get('q') ?? '')
  const orderBy = params.get('sort') ?? first
  const pages = usePages(`${filter}\n${orderBy}`)
  const list = useLive(
    ClusterViewService.method.listClusterViews,
    { filter, orderBy, pageSize: size, pageToken: pages.token },
    { keep: true },
  )
  const held = useHeld(questionOf(list, filter, orderBy, pages.token), list.data?.views, (v) => v.cluster)
  return (
    <>
      <List
        what="the figures of clusters"
        of={list}
        count={list.data && held.rows.length}
        held={held}
        nothing={
          <Empty pages={pages}>
            <Nothing what="cluster" filter={filter} all="/clusters?tab=figures">
              <Link to="/join">Join one</Link>
            </Nothing>
          </Empty>
        }
      >
        <thead>
          <tr>
            <Column title="Name" field="name" first={first} />
            {figureColumns.map((c) => (
              <Column key={c.order} title={c.title} field={c.order} first={first} most />
            ))}
          </tr>
        </thead>
        <tbody>
          {held.rows.map((v) => (
            <tr
              key={v.cluster}
              className={held.waiting?.gone.has(v.cluster) ? 'stale' : follows(v) ? '' : 'away'}
            >
              <td className="name">
                {!v.connected && <State of="unknown" word="" note="not connected" />}
                <Link to={`/cluster/${v.cluster}`}>{plain(v.cluster, 63)}</Link>
                {v.missing || v.unfollowed ? (
                  <div className="cause">
                    <Said of={v.missing || v.unfollowed} max={300} />
                  </div>
                ) : (
                  !v.connected && (
                    <div className="cause">
                      not connected; as of <Age of={v.lastSeenTime} /> ago
                    </div>
                  )
                )}
              </td>
              <FigureCells of={v.figures} />
            </tr>
          ))}
        </tbody>
      </List>
      <div className="head">
        <Export name="figures" columns={columns(held.rows)} rows={held.rows.map(rowOf)} />
        <Pager pages={pages} next={list.data?.nextPageToken ?? ''} size={size} total={list.data?.totalSize} />
      </div>
    </>
  )
}

// All figures that one of the clusters has.
const columns = (views: ClusterView[]) => [
  'name',
  'connected',
  ...[...new Set(views.flatMap((v) => Object.keys(v.figures)))].sort(),
]

const rowOf = (v: ClusterView) => ({
  name: v.cluster,
  connected: String(v.connected),
  ...Object.fromEntries(Object.entries(v.figures).map(([name, n]) => [name, String(n)])),
})
