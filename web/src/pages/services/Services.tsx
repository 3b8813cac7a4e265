import { lazy } from 'react'
import { Link, useSearchParams } from 'react-router'
import { Kind } from '../../gen/fairlead/console/v1/catalog_service_pb'
import { LiveService } from '../../gen/fairlead/console/v1/live_service_pb'
import type { Service } from '../../gen/fairlead/console/v1/resources_pb'
import { ServiceService } from '../../gen/fairlead/console/v1/service_service_pb'
import { toFilter } from '../../hub/filter'
import { Age } from '../../live/Age'
import { useLive } from '../../live/live'
import { leversOf } from '../../state/levers'
import { State } from '../../state/State'
import { followedBy, sourceOf } from '../../state/sources'
import { needsWords, stateOf } from '../../state/states'
import { Column } from '../../ui/Column'
import { useChosen } from '../../ui/chosen'
import { Export } from '../../ui/Export'
import { questionOf, useHeld } from '../../ui/held'
import { List } from '../../ui/List'
import { Nothing } from '../../ui/Nothing'
import { Empty, Pager, usePages } from '../../ui/Pager'
import { Title } from '../../ui/Panel'
import { Part } from '../../ui/Part'
import { labelsOf } from '../../ui/Resources'
import { Said } from '../../ui/Said'
import { Search } from '../../ui/Search'
import { plain, shortCommit } from '../../ui/text'
import { Batch } from './Batch'
import { columns, type Name, rowOf, shownIn, sortable, titles } from './columns'
import { Columns, Views } from './Views'

const Gone = lazy(() => import('./Gone'))

const size = 100
const worstAndNewest = 'state desc, state_since desc'
// What a row shows and nothing else: of a service with a hundred failing objects the list wants a sentence.
const paths = [
  'metadata.name',
  'metadata.labels',
  'spec.cluster',
  'spec.source',
  'spec.sources',
  'spec.ref',
  'spec.chart',
  'spec.version',
  'spec.path',
  'spec.project',
  'spec.sync',
  'levers',
  'status.state',
  'status.state_message',
  'status.state_since',
  'status.git.revision.commit',
  'status.hub.revision.commit',
  'status.cluster.report.applied_commit',
  'status.cluster.report.applied_time',
]

export function Services() {
  const [params] = useSearchParams()
  const filter = toFilter(params.get('q') ?? '')
  const orderBy = params.get('sort') ?? worstAndNewest
  const pages = usePages(`${filter}\n${orderBy}`)
  const list = useLive(
    ServiceService.method.listServices,
    { filter, orderBy, pageSize: size, pageToken: pages.token, readMask: { paths } },
    { keep: true },
  )
  const counted = useLive(LiveService.method.countResources, { kind: Kind.SERVICE, filter }, { keep: true })
  const [chosen, setChosen] = useChosen()
  const shown = shownIn(params)
  const held = useHeld(questionOf(list, filter, orderBy, pages.token), list.data?.services, nameOf)
  const names = held.rows.map(nameOf)
  const total = counted.data?.counts.reduce((sum, c) => sum + c.count, 0)
  return (
    <>
      <div className="head">
        <Title tab="Services">Services</Title>
        {total !== undefined && (
          <span className="quiet">
            {total.toLocaleString()} {filter === '' ? 'in all' : total === 1 ? 'fits' : 'fit'}
          </span>
        )}
        <Search hint="name, or a filter: state >= degraded AND cluster = edge-1" />
        <span className="end">
          <Columns shown={shown} />
          <Export name="services" columns={['name', ...columns]} rows={held.rows.map(rowOf)} />
        </span>
      </div>
      <Views />
      <List
        what="services"
        of={list}
        count={list.data && held.rows.length}
        held={held}
        nothing={
          <Empty pages={pages}>
            <Nothing what="service" filter={filter} all="/services">
              <code>fairlead init</code> writes a first one.
            </Nothing>
          </Empty>
        }
      >
        <thead>
          <tr>
            <th scope="col">
              <input
                type="checkbox"
                aria-label="Choose all on this page"
                checked={names.length > 0 && names.every((n) => chosen.has(n))}
                onChange={(e) => setChosen(new Set(e.target.checked ? [...chosen, ...names] : []))}
              />
            </th>
            <Column title="Name" field="name" first={worstAndNewest} />
            {columns
              .filter((c) => shown.has(c))
              .map((c) =>
                sortable[c] ? (
                  <Column key={c} title={titles[c]} field={sortable[c]} first={worstAndNewest} />
                ) : (
                  <th key={c} scope="col">
                    {titles[c]}
                  </th>
                ),
              )}
          </tr>
        </thead>
        <tbody>
          {held.rows.map((s) => (
            <Row
              key={s.metadata?.name}
              of={s}
              gone={held.waiting?.gone.has(nameOf(s)) ?? false}
              shown={shown}
              chosen={chosen.has(s.metadata?.name ?? '')}
              choose={(on) => {
                const next = new Set(chosen)
                if (on) next.add(s.metadata?.name ?? '')
                else next.delete(s.metadata?.name ?? '')
                setChosen(next)
              }}
            />
          ))}
        </tbody>
      </List>
      <Batch chosen={chosen} clear={() => setChosen(new Set())} changed={() => void list.refetch()} />
      <Pager pages={pages} next={list.data?.nextPageToken ?? ''} size={size} total={total} />
      <Part what="services that were deleted">
        <Gone />
      </Part>
    </>
  )
}

const nameOf = (s: Service) => s.metadata?.name ?? ''

function Row({
  of,
  gone,
  shown,
  chosen,
  choose,
}: {
  of: Service
  gone: boolean // it is not in the list any more
  shown: ReadonlySet<string>
  chosen: boolean
  choose: (on: boolean) => void
}) {
  const name = of.metadata?.name ?? ''
  const state = stateOf(of.status?.state)
  const message = of.status?.stateMessage ?? ''
  const report = of.status?.cluster?.report
  const cluster = of.spec?.cluster ?? ''
  const cells: Record<Name, React.ReactNode> = {
    cluster: cluster && <Link to={`/cluster/${cluster}`}>{cluster}</Link>,
    state: <State of={state} note={message} />,
    since: <Age of={of.status?.stateSince} />,
    git: <span className="mono">{shortCommit(of.status?.git?.revision?.commit)}</span>,
    hub: <span className="mono">{shortCommit(of.status?.hub?.revision?.commit)}</span>,
    applied: (
      <>
        <span className="mono">{shortCommit(report?.appliedCommit)}</span>{' '}
        {report?.appliedTime && <Age of={report.appliedTime} />}
      </>
    ),
    levers: leversOf(of),
    source: sourceOf(of.spec),
    project: of.spec?.project,
    ref: plain(followedBy(of.spec) || 'default', 80),
    path: plain(of.spec?.path ?? '', 200),
    labels: labelsOf(of.metadata),
  }
  return (
    <tr aria-selected={chosen} className={gone ? 'stale' : undefined}>
      <td>
        <input
          type="checkbox"
          aria-label={`Choose ${name}`}
          checked={chosen}
          onChange={(e) => choose(e.target.checked)}
        />
      </td>
      <td className="name">
        <Link to={`/service/${name}`}>{name}</Link>
        {needsWords(state) && message && (
          <div className="cause">
            <Said of={message} max={300} />
          </div>
        )}
      </td>
      {columns
        .filter((c) => shown.has(c))
        .map((c) => (
          <td key={c}>{cells[c]}</td>
        ))}
    </tr>
  )
}
