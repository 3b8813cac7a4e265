import { useQuery } from '@connectrpc/connect-query'
import { type Revision, RevisionService } from '../gen/fairlead/console/v1/revision_service_pb'
import { failureOf } from '../hub/errors'
import { Age } from '../live/Age'
import { Difference } from './Difference'
import { Export } from './Export'
import { Opened } from './Opened'
import { Pager, usePages } from './Pager'
import { Failed, Waiting } from './Panel'
import type { ResourceKind } from './resources'
import { isoOf, plain } from './text'

const size = 20

// Who wrote a resource in the catalog when, and what that changed. It is known of one that was deleted, too.
export default function Changes({ of, name }: { of: ResourceKind; name: string }) {
  const pages = usePages(`${of.path}/${name}`, 'changes')
  const list = useQuery(
    RevisionService.method.listRevisions,
    { kind: of.kind, name, pageSize: size, pageToken: pages.token },
    { refetchInterval: 15_000 },
  )
  const revisions = list.data?.revisions ?? []
  return (
    <section className="panel" aria-label="Changes in the catalog">
      <div className="head">
        <h2>Changes in the catalog</h2>
        <span className="end">
          <Export
            name={`${name}-changes`}
            columns={['revision', 'action', 'author', 'time', 'diff']}
            rows={revisions.map((r) => ({
              revision: String(r.revision),
              action: r.action,
              author: r.author,
              time: isoOf(r.time),
              diff: r.diff,
            }))}
          />
        </span>
      </div>
      {list.error && <Failed failure={failureOf(list.error)} again={() => void list.refetch()} />}
      {list.isPending && <Waiting what="its changes" />}
      {list.data && revisions.length === 0 && <p className="quiet">Nothing is known of it.</p>}
      <ul className="lines">
        {revisions.map((r) => (
          <li key={`${r.revision} ${r.action} ${r.time?.seconds}`}>
            <Change of={r} />
          </li>
        ))}
      </ul>
      <Pager pages={pages} next={list.data?.nextPageToken ?? ''} size={size} total={undefined} />
    </section>
  )
}

function Change({ of }: { of: Revision }) {
  const words = (
    <>
      #{String(of.revision)} {plain(of.action, 100)} by {plain(of.author, 300) || 'somebody'}{' '}
      <Age of={of.time} /> ago
    </>
  )
  if (of.diff === '') return words
  return (
    <Opened name={`change.${of.revision}.${of.action}`} summary={words}>
      {() => <Difference text={of.diff} />}
    </Opened>
  )
}
