import type { Message } from '@bufbuild/protobuf'
import { Link } from 'react-router'
import type { Metadata } from '../gen/fairlead/console/v1/resources_pb'
import { Age } from '../live/Age'
import { useLive } from '../live/live'
import { Export } from './Export'
import { questionOf, useHeld } from './held'
import { List } from './List'
import { Pager, usePages } from './Pager'
import { held, type ResourceKind, written } from './resources'
import { pairsOf, plain } from './text'

const size = 100

// A short list of one kind, with a sentence about each.
export function Resources<T extends Message & { metadata?: Metadata | undefined }>({
  of,
  say,
}: {
  of: ResourceKind
  say: (resource: T) => React.ReactNode
}) {
  const pages = usePages(of.path, of.path)
  const list = useLive(of.list, { pageSize: size, pageToken: pages.token } as never, { keep: true })
  const found = held(of.list, list.data) as T[] | undefined
  const nameIn = (r: T) => r.metadata?.name ?? ''
  const inPlace = useHeld(questionOf(list, of.path, pages.token), found, nameIn)
  const next = (list.data as unknown as { nextPageToken?: string } | undefined)?.nextPageToken ?? ''
  return (
    <section className="panel">
      <div className="head">
        <h2>{of.plural[0]?.toUpperCase() + of.plural.slice(1)}</h2>
        <span className="end">
          <Export
            name={of.path}
            columns={['name', 'labels', 'spec']}
            rows={inPlace.rows.map((r) => rowOf(of, r))}
          />{' '}
          <Link to={`/apply?kind=${of.name}`}>New</Link>
        </span>
      </div>
      <List
        what={of.plural}
        of={list}
        count={found && inPlace.rows.length}
        held={inPlace}
        nothing={
          <p>
            There are none that you may see. <Link to={`/apply?kind=${of.name}`}>Write one</Link>
          </p>
        }
      >
        <tbody>
          {inPlace.rows.map((r) => (
            <tr key={nameIn(r)} className={inPlace.waiting?.gone.has(nameIn(r)) ? 'stale' : undefined}>
              <td className="name">
                <Link to={`/${of.path}/${r.metadata?.name}`}>{r.metadata?.name}</Link>
              </td>
              <td>{say(r)}</td>
              <td className="quiet">
                {labelsOf(r.metadata)} {r.metadata?.updateTime && <Age of={r.metadata.updateTime} />}
              </td>
            </tr>
          ))}
        </tbody>
      </List>
      <Pager pages={pages} next={next} size={size} total={undefined} />
    </section>
  )
}

export const labelsOf = (m: Metadata | undefined, most = 300) => plain(pairsOf(m?.labels), most)

const rowOf = (of: ResourceKind, r: Message & { metadata?: Metadata | undefined }) => ({
  name: r.metadata?.name ?? '',
  labels: labelsOf(r.metadata, Number.MAX_SAFE_INTEGER),
  spec: JSON.stringify(written(of.schema, r).spec ?? {}),
})
