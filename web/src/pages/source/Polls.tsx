import { useMutation, useQuery } from '@connectrpc/connect-query'
import { type LiveSource, SourceService } from '../../gen/fairlead/gitcache/v1/source_pb'
import { failureAt } from '../../hub/errors'
import { Age } from '../../live/Age'
import { every, useFreshness } from '../../live/asked'
import { Until } from '../../live/Until'
import { Failed, Stale } from '../../ui/Panel'
import { bytesOf, plain } from '../../ui/text'

// What the gitcaches know of a source right now: which replica fetches it, its polls, and what they cost its host.
export function Polls({ name, changed }: { name: string; changed: () => void }) {
  const got = useQuery(SourceService.method.getSource, { name }, { refetchInterval: every })
  const refresh = useMutation(SourceService.method.refreshSource, {
    onSuccess: () => {
      void got.refetch()
      changed()
    },
  })
  const of = got.data?.source
  const fresh = useFreshness([got])
  return (
    <section className="panel" aria-label="Polls">
      <div className="head">
        <h2>Polls</h2>
        <span className="end">
          {refresh.isSuccess && (
            <span className="quiet" role="status">
              The owner polls now.
            </span>
          )}
          <button type="button" disabled={refresh.isPending} onClick={() => refresh.mutate({ name })}>
            Refresh
          </button>
        </span>
      </div>
      {refresh.error && <Failed failure={failureAt('gitcache', refresh.error)} />}
      {got.error && !of && (
        <Failed failure={failureAt('gitcache', got.error)} again={() => void got.refetch()} />
      )}
      {got.isPending && <p className="quiet">Asking the gitcaches…</p>}
      {of && fresh.failure && (
        <Stale
          of={{ ...fresh, failure: failureAt('gitcache', got.error) }}
          again={() => void got.refetch()}
        />
      )}
      {of && (
        <div className={got.error ? 'stale' : ''}>
          <Numbers of={of} />
        </div>
      )}
    </section>
  )
}

function Numbers({ of }: { of: LiveSource }) {
  return (
    <dl>
      <dt>Fetched by</dt>
      <dd>
        {plain(of.owner, 253) || 'no replica: the next one that is free takes it'}
        {of.standbys.length > 0 && `; copies on ${plain(of.standbys.join(', '), 600)}`}
      </dd>
      <dt>Last poll</dt>
      <dd>
        <Age of={of.lastPollTime} />
      </dd>
      <dt>Next poll</dt>
      <dd>
        <Until of={of.nextPollTime} over="due" none="not planned" />
      </dd>
      {of.staleSince && (
        <>
          <dt>Served from cache</dt>
          <dd>
            since <Age of={of.staleSince} />: its host has not answered as it should
          </dd>
        </>
      )}
      <dt>Requests to its host</dt>
      <dd>{of.upstreamRequestsLastHour} in the last hour</dd>
      <dt>On disk</dt>
      <dd>
        {bytesOf(Number(of.mirrorBytes))} in {of.mirrorPacks} packs
      </dd>
    </dl>
  )
}
