import { Link, useSearchParams } from 'react-router'
import type { Source } from '../../gen/fairlead/console/v1/resources_pb'
import { SourceService } from '../../gen/fairlead/console/v1/source_service_pb'
import { quote, toFilter } from '../../hub/filter'
import { Age } from '../../live/Age'
import { useLive } from '../../live/live'
import { State } from '../../state/State'
import { shownRef, urlOf, wordOf } from '../../state/sources'
import { Column } from '../../ui/Column'
import { Export } from '../../ui/Export'
import { questionOf, useHeld } from '../../ui/held'
import { List } from '../../ui/List'
import { Nothing } from '../../ui/Nothing'
import { Empty, Pager, usePages } from '../../ui/Pager'
import { Title } from '../../ui/Panel'
import { Said } from '../../ui/Said'
import { Search } from '../../ui/Search'
import { isoOf, plain, sentence, shortCommit } from '../../ui/text'

const size = 100
const worstFirst = 'state desc, name'

export function Sources() {
  const [params] = useSearchParams()
  const filter = toFilter(params.get('q') ?? '')
  const orderBy = params.get('sort') ?? worstFirst
  const pages = usePages(`${filter}\n${orderBy}`)
  const list = useLive(
    SourceService.method.listSources,
    { filter, orderBy, pageSize: size, pageToken: pages.token },
    { keep: true },
  )
  const held = useHeld(questionOf(list, filter, orderBy, pages.token), list.data?.sources, nameOf)
  return (
    <>
      <div className="head">
        <Title tab="Sources">Sources</Title>
        <Search hint="name, or a filter: state = failing" />
        <Export name="sources" columns={columns} rows={held.rows.map(rowOf)} />
      </div>
      <List
        what="sources"
        of={list}
        count={list.data && held.rows.length}
        held={held}
        nothing={
          <Empty pages={pages}>
            <Nothing what="source" filter={filter} all="/sources">
              <Link to="/apply?kind=Source">Write one</Link>
            </Nothing>
          </Empty>
        }
      >
        <thead>
          <tr>
            <Column title="Name" field="name" first={worstFirst} />
            <Column title="State" field="state" first={worstFirst} />
            <Column title="Repository" field="url" first={worstFirst} />
            <th scope="col">Refs</th>
            <th scope="col">Owner</th>
            <th scope="col">Services</th>
          </tr>
        </thead>
        <tbody>
          {held.rows.map((s) => (
            <Row key={nameOf(s)} of={s} gone={held.waiting?.gone.has(nameOf(s)) ?? false} />
          ))}
        </tbody>
      </List>
      <Pager pages={pages} next={list.data?.nextPageToken ?? ''} size={size} total={undefined} />
    </>
  )
}

const nameOf = (s: Source) => s.metadata?.name ?? ''

// gone: it is not in the list any more.
function Row({ of, gone }: { of: Source; gone: boolean }) {
  const name = of.metadata?.name ?? ''
  const problem = of.status?.problem
  const heads = of.status?.heads ?? []
  const word = wordOf(of)
  return (
    <tr className={gone ? 'stale' : undefined}>
      <td className="name">
        <Link to={`/source/${name}`}>{name}</Link>
        {problem && (
          <div className="cause">
            <Said of={sentence(problem.message)} max={500} /> Since <Age of={problem.since} />
            {word === 'failing' && heads.length > 0 && '; the last good commits are served'}.
          </div>
        )}
      </td>
      <td>
        <State of={shownAs[word]} word={word} />
      </td>
      <td className="mono">{plain(urlOf(of.spec), 300)}</td>
      <td>
        {heads.slice(0, 8).map((h) => (
          <div key={h.ref}>
            {plain(shownRef(h.ref), 120)} <span className="mono">{shortCommit(h.revision?.commit)}</span>{' '}
            <Age of={h.fetchTime} />
            {h.newerVersion && <span className="quiet"> newer: {plain(h.newerVersion, 100)}</span>}
          </div>
        ))}
        {heads.length > 8 && <div className="quiet">and {heads.length - 8} more</div>}
      </td>
      <td>{plain(of.status?.owner ?? '')}</td>
      <td>
        <Link
          to={`/services?q=${encodeURIComponent(`source = ${quote(name)}`)}`}
          aria-label={`its services: ${name}`} // begins with what is seen
        >
          its services
        </Link>
      </td>
    </tr>
  )
}

const shownAs = { failing: 'failed', ready: 'healthy', pending: 'pending' } as const

const columns = ['name', 'state', 'url', 'owner', 'heads', 'problem', 'since']

const rowOf = (s: Source) => ({
  name: s.metadata?.name ?? '',
  state: wordOf(s),
  url: urlOf(s.spec),
  owner: s.status?.owner ?? '',
  heads: (s.status?.heads ?? []).map((h) => `${h.ref}=${h.revision?.commit ?? ''}`).join(' '),
  problem: s.status?.problem?.message ?? '',
  since: isoOf(s.status?.problem?.since),
})
