import { timestampMs } from '@bufbuild/protobuf/wkt'
import { useQuery } from '@connectrpc/connect-query'
import { RevisionService } from '../gen/fairlead/console/v1/revision_service_pb'
import { failureOf } from '../hub/errors'
import { Age } from '../live/Age'
import { useHubNow } from '../live/asked'
import { useLever } from './Ask'
import Changes from './Changes'
import { orphanSays } from './detach'
import { Failed } from './Panel'
import type { ResourceKind } from './resources'
import { plain } from './text'

// The hub undoes a deletion for so long.
const undoable = 3_600_000

// Where there is no such resource: who deleted it, a way to bring it back, and what was changed of it before.
export default function Deleted({ of, name, back }: { of: ResourceKind; name: string; back: () => void }) {
  const now = useHubNow()
  const list = useQuery(
    RevisionService.method.listRevisions,
    // The one of the deletion has no resource: what comes back is what the one before it wrote.
    { kind: of.kind, name, pageSize: 2 },
    { retry: false },
  )
  const undelete = useLever(RevisionService.method.undeleteResource, () => {
    back()
    void list.refetch()
  })
  const [last, written] = list.data?.revisions ?? []
  if (last?.action !== 'deleted') return null
  const before = written?.resource?.resource
  const stays = before?.case === 'service' ? orphanSays(before.value) : ''
  const left = last.time ? timestampMs(last.time) + undoable - now : 0
  return (
    <>
      <section className="notice" aria-label="Deleted">
        {plain(last.author, 300)} deleted it <Age of={last.time} /> ago.{' '}
        {of.name === 'Secret' && 'Its values went with it: write it again.'}
        {of.name !== 'Secret' && left <= 0 && 'A deletion can be undone for an hour.'}
        {of.name !== 'Secret' && left > 0 && (
          <>
            <button
              type="button"
              disabled={undelete.pending}
              onClick={() => undelete.pull({ kind: of.kind, name })}
            >
              Bring it back
            </button>
            <div className="quiet">
              It comes back as it was, with its labels
              {of.name === 'Service' &&
                (stays
                  ? ` and levers; its objects, which stayed in the cluster, are applied over. It has ${stays}`
                  : ' and levers; its objects are applied anew, without what was kept in them')}
              {of.name === 'Cluster' && '; its agent needs a new join token'}.
            </div>
          </>
        )}
        {undelete.error ? <Failed failure={failureOf(undelete.error)} /> : null}
      </section>
      <Changes of={of} name={name} />
    </>
  )
}
