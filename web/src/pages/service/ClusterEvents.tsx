import { useQuery as useMethod } from '@connectrpc/connect-query'
import { useQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import { EventTable } from '../../cluster/EventTable'
import { eventsOfObjects } from '../../cluster/events'
import { askOf } from '../../cluster/request'
import { ObjectService } from '../../gen/fairlead/console/v1/object_service_pb'
import { failureOf } from '../../hub/errors'
import { clock } from '../../live/ages'
import { Failed } from '../../ui/Panel'
import { plain } from '../../ui/text'

// What the cluster itself tells of the service's objects and their pods: asked of its API server as the person, and dated.
export default function ClusterEvents({ service, cluster }: { service: string; cluster: string }) {
  const ask = useMemo(() => askOf(cluster), [cluster])
  const objects = useMethod(
    ObjectService.method.listObjects,
    { service, pageSize: 1000 },
    { refetchInterval: 30_000 },
  )
  const of = (objects.data?.objects ?? []).flatMap(({ object: o }) => o ?? [])
  const got = useQuery({
    queryKey: ['events of', service, cluster, of.map((o) => `${o.kind}/${o.namespace}/${o.name}`)],
    enabled: of.length > 0,
    refetchInterval: 15_000,
    queryFn: () => eventsOfObjects(ask, of),
  })
  const again = () => void got.refetch()
  return (
    <section className="panel" aria-label="Events of the cluster">
      <div className="head">
        <h2>Events of the cluster</h2>
        {got.data && (
          <span className="quiet">
            asked {clock(got.dataUpdatedAt)}{' '}
            <button type="button" onClick={again}>
              Again
            </button>
          </span>
        )}
      </div>
      {objects.error && !objects.data && (
        <Failed failure={failureOf(objects.error)} again={() => void objects.refetch()} />
      )}
      {objects.data && of.length === 0 && <p>The cluster has not told which objects this service has.</p>}
      {got.error && <Failed failure={failureOf(got.error)} again={again} />}
      {!got.data && got.isFetching && (
        <p className="quiet" role="status">
          Asking {plain(cluster, 63)} for events…
        </p>
      )}
      {got.data && (
        <div className={got.error ? 'stale' : ''}>
          <EventTable events={got.data.events.slice(0, 200)} file={`${service}-cluster-events`} named />
          {(got.data.partial || got.data.events.length > 200) && (
            <p className="quiet">
              There are more than are shown here, or some that you may not see:{' '}
              <code>fairlead kubectl {cluster} -- get events -A</code>.
            </p>
          )}
        </div>
      )}
    </section>
  )
}
