import { useQuery } from '@connectrpc/connect-query'
import { Link, useSearchParams } from 'react-router'
import { ConfigService } from '../../gen/fairlead/console/v1/config_set_service_pb'
import { put, useChange } from '../../ui/address'
import { Export } from '../../ui/Export'
import { List } from '../../ui/List'
import { Empty, Pager, usePages } from '../../ui/Pager'
import type { ResourceKind } from '../../ui/resources'
import { plain } from '../../ui/text'
import { namesOf, rowsOf } from './entries'

const size = 100

// The services that get values from a resource, or of one entry: ?entry=NAME.
export function Users({ of, name, entries }: { of: ResourceKind; name: string; entries: string[] }) {
  const [params] = useSearchParams()
  const change = useChange()
  const entry = params.get('entry') ?? ''
  const pages = usePages(`${of.path}/${name} ${entry}`, 'users')
  // The hub puts all of these services together for it: a page does not ask for that all the time.
  const got = useQuery(
    ConfigService.method.listConfigUsers,
    { kind: of.kind, name, entry, pageSize: size, pageToken: pages.token },
    { refetchInterval: 15_000 },
  )
  const users = got.data?.users
  const next = got.data?.nextPageToken ?? ''
  return (
    <section className="panel" aria-label="Who uses its values">
      <div className="head">
        <h2>Who uses its values</h2>
        {entries.length > 0 && (
          <label>
            Entry{' '}
            <select value={entry} onChange={(e) => change((to) => put(to, 'entry', e.target.value))}>
              <option value="">all</option>
              {[...new Set([...(entry ? [entry] : []), ...entries])].map((e) => (
                <option key={e}>{e}</option>
              ))}
            </select>
          </label>
        )}
        <span className="end">
          <Export
            name={`users-of-${name}`}
            columns={['service', 'cluster', 'entry', 'from', 'over']}
            rows={rowsOf(users ?? [])}
          />
        </span>
      </div>
      <List
        what="its users"
        of={got}
        count={next ? Math.max(1, users?.length ?? 1) : users?.length}
        nothing={
          <Empty pages={pages}>
            <p>No service that you may see gets {entry ? plain(entry, 253) : 'a value'} from it.</p>
          </Empty>
        }
      >
        <thead>
          <tr>
            <th scope="col">Service</th>
            <th scope="col">Cluster</th>
            <th scope="col">Gets from it</th>
            <th scope="col">Gets from elsewhere instead</th>
          </tr>
        </thead>
        <tbody>
          {users?.map((u) => (
            <tr key={u.service}>
              <td className="name">
                <Link to={`/service/${u.service}?tab=config`}>{plain(u.service, 63)}</Link>
              </td>
              <td>{plain(u.cluster, 63)}</td>
              <td className="mono">{plain(namesOf(u, false), 600)}</td>
              <td className="quiet">{plain(namesOf(u, true), 600)}</td>
            </tr>
          ))}
        </tbody>
      </List>
      <Pager pages={pages} next={next} size={size} total={undefined} />
      <p className="quiet">
        <code>
          fairlead config --from {of.path}/{name}
          {entry && ` ${plain(entry, 253)}`}
        </code>
      </p>
    </section>
  )
}
