import { createClient } from '@connectrpc/connect'
import { useQuery } from '@tanstack/react-query'
import { Kind } from '../../gen/fairlead/console/v1/catalog_service_pb'
import type { Service } from '../../gen/fairlead/console/v1/resources_pb'
import { type Deployment, RevisionService } from '../../gen/fairlead/console/v1/revision_service_pb'
import { failureOf } from '../../hub/errors'
import { transport } from '../../hub/transport'
import { Difference } from '../../ui/Difference'
import { Failed, Waiting } from '../../ui/Panel'
import { kindNamed, manifest, type ResourceKind } from '../../ui/resources'
import { DiffTo } from './Diff'
import { linesOf } from './lines'

const kind = kindNamed('Service') as ResourceKind
const hub = createClient(RevisionService, transport)

// The hub keeps so many revisions.
const most = 1000

// The service as it was written then.
async function specOf(name: string, revision: bigint, signal: AbortSignal): Promise<Service | undefined> {
  let pageToken = ''
  for (let seen = 0; seen < most; ) {
    const page = await hub.listRevisions({ kind: Kind.SERVICE, name, pageSize: 100, pageToken }, { signal })
    for (const { revision: of, resource } of page.revisions)
      if (of === revision && resource?.resource.case === 'service') return resource.resource.value
    seen += page.revisions.length
    pageToken = page.nextPageToken
    if (pageToken === '') return undefined
  }
  return undefined
}

// What a rollback would change: the spec, which is the one of then, and what its content does in the cluster, by a dry run.
export default function Back({ of, to }: { of: Service; to: Deployment }) {
  const name = of.metadata?.name ?? ''
  const other = to.specRevision !== of.metadata?.revision
  const then = useQuery({
    queryKey: ['spec of', name, String(to.specRevision)],
    enabled: other,
    queryFn: async ({ signal }) => (await specOf(name, to.specRevision, signal)) ?? null,
    retry: false,
    refetchInterval: false,
    staleTime: Number.POSITIVE_INFINITY,
  })
  const spec = then.data ? linesOf(manifest(kind, of), manifest(kind, then.data)) : ''
  return (
    <>
      {other && then.isPending && <Waiting what="the spec of then" />}
      {then.error && <Failed failure={failureOf(then.error)} again={() => void then.refetch()} />}
      {then.data === null && <p className="quiet">The hub keeps the spec of then no more.</p>}
      {spec !== '' && (
        <section aria-label="The spec">
          <h3>The spec</h3>
          <Difference text={spec} />
        </section>
      )}
      <section aria-label="In the cluster">
        <h3>In the cluster</h3>
        {to.commit?.commit && <DiffTo of={of} revision={to.commit.commit} />}
        {spec !== '' && <p className="quiet">Compared with the spec of now.</p>}
      </section>
    </>
  )
}
