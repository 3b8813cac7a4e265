import { useQuery as useMethod } from '@connectrpc/connect-query'
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import { LogView } from '../../cluster/LogView'
import type { Container } from '../../cluster/logs'
import { containersOf, noPods, podsOfObject, workloadOf } from '../../cluster/pods'
import { askOf } from '../../cluster/request'
import { ObjectService } from '../../gen/fairlead/console/v1/object_service_pb'
import { failureOf } from '../../hub/errors'
import { Failed, Waiting } from '../../ui/Panel'
import { plain } from '../../ui/text'

// Workloads that are asked for their pods: each is two questions.
const most = 32

// The merged logs of all pods of a service.
export default function Logs({ service, cluster }: { service: string; cluster: string }) {
  const ask = useMemo(() => askOf(cluster), [cluster])
  const objects = useMethod(
    ObjectService.method.listObjects,
    { service, pageSize: 1000 },
    { refetchInterval: 30_000 },
  )
  const of = (objects.data?.objects ?? []).flatMap(({ object: o }) => {
    return o && workloadOf(o) ? [o] : []
  })
  const found = useQuery({
    queryKey: ['logs of', service, cluster, of.map((o) => `${o.kind}/${o.namespace}/${o.name}`)],
    enabled: of.length > 0,
    refetchInterval: 10_000,
    placeholderData: keepPreviousData, // a rollout may bring objects: the log goes on
    queryFn: async () => {
      const all = await Promise.all(of.slice(0, most).map((o) => podsOfObject(ask, o).catch(noPods)))
      return containersOf(all.flat())
    },
  })
  const names = JSON.stringify(found.data ?? [])
  const containers = useMemo(() => JSON.parse(names) as Container[], [names])
  if (objects.error && !objects.data)
    return <Failed failure={failureOf(objects.error)} again={() => void objects.refetch()} />
  if (!objects.data) return <Waiting what="objects" />
  if (of.length === 0) return <p>Nothing of this service has pods.</p>
  if (found.error && !found.data)
    return <Failed failure={failureOf(found.error)} again={() => void found.refetch()} />
  if (!found.data)
    return (
      <p className="quiet" role="status">
        Asking {plain(cluster, 80)} for pods…
      </p>
    )
  return (
    <>
      {of.length > most && (
        <p className="notice">
          {most} of {of.length} workloads are asked for their pods. The others have their logs in the explorer
          of the cluster.
        </p>
      )}
      <LogView ask={ask} name={service} containers={containers} none="None of its workloads has a pod." />
    </>
  )
}
