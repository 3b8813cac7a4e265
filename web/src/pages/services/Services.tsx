import { Link, useSearchParams } from 'react-router'
import { Kind } from '../../gen/fairlead/console/v1/catalog_service_pb'
import { LiveService } from '../../gen/fairlead/console/v1/live_service_pb'
import type { Service } from '../../gen/fairlead/console/v1/resources_pb'
import { ServiceService } from '../../gen/fairlead/console/v1/service_service_pb'
import { toFilter } from '../../hub/filter'
import { Age } from '../../live/Age'
import { useLive } from '../../live/live'
import { State } from '../../state/State'
import { needsWords, stateOf } from '../../state/states'
import { Column } from '../../ui/Column'
import { List } from '../../ui/List'
import { Pager, usePages } from '../../ui/Pager'
import { Title } from '../../ui/Panel'
import { Search } from '../../ui/Search'
import { plain, shortCommit } from '../../ui/text'

const size = 100
const worstAndNewest = 'state desc, state_since desc'
// What a row shows and nothing else: of a service with a hundred failing objects the list wants a sentence.
const paths = [
  'metadata.name',
  'spec.cluster',
  'spec.source',
  'spec.sync',
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
  const total = counted.data?.counts.reduce((sum, c) => sum + c.count, 0)
  return (
    <>
      <div className="head">
        <Title tab="Services">Services</Title>
        {total !== undefined && <span className="quiet">{total.toLocaleString()} fit</span>}
        <Search hint="name, or a filter: state >= degraded AND cluster = edge-1" />
      </div>
      <List
        what="services"
        of={list}
        count={list.data?.services.length}
        nothing={<Nothing filter={filter} />}
      >
        <thead>
          <tr>
            <Column title="Name" field="name" first={worstAndNewest} />
            <Column title="Cluster" field="cluster" first={worstAndNewest} />
            <Column title="State" field="state" first={worstAndNewest} />
            <Column title="Since" field="state_since" first={worstAndNewest} />
            <th scope="col">Git</th>
            <th scope="col">Hub</th>
            <th scope="col">Applied</th>
            <Column title="Source" field="source" first={worstAndNewest} />
          </tr>
        </thead>
        <tbody>
          {list.data?.services.map((s) => (
            <Row key={s.metadata?.name} of={s} />
          ))}
        </tbody>
      </List>
      <Pager pages={pages} next={list.data?.nextPageToken ?? ''} size={size} total={total} />
    </>
  )
}

function Row({ of }: { of: Service }) {
  const name = of.metadata?.name ?? ''
  const state = stateOf(of.status?.state)
  const message = of.status?.stateMessage ?? ''
  const report = of.status?.cluster?.report
  const cluster = of.spec?.cluster ?? ''
  return (
    <tr>
      <td className="name">
        <Link to={`/service/${name}`}>{name}</Link>
        {needsWords(state) && message && <div className="cause">{plain(message, 300)}</div>}
      </td>
      <td>{cluster && <Link to={`/cluster/${cluster}`}>{cluster}</Link>}</td>
      <td>
        <State of={state} note={message} />
      </td>
      <td>
        <Age of={of.status?.stateSince} />
      </td>
      <td className="mono">{shortCommit(of.status?.git?.revision?.commit)}</td>
      <td className="mono">{shortCommit(of.status?.hub?.revision?.commit)}</td>
      <td>
        <span className="mono">{shortCommit(report?.appliedCommit)}</span>{' '}
        {report?.appliedTime && <Age of={report.appliedTime} />}
      </td>
      <td>{of.spec?.source}</td>
    </tr>
  )
}

function Nothing({ filter }: { filter: string }) {
  if (filter === '')
    return (
      <p>
        There is no service that you may see. <code>fairlead init</code> writes a first one.
      </p>
    )
  return (
    <p>
      No service fits <code>{plain(filter)}</code>. <Link to="/services">Show all</Link>
    </p>
  )
}
