import { useQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import { LogView } from '../../cluster/LogView'
import type { Container } from '../../cluster/logs'
import { containersOf, type Pods, readPods } from '../../cluster/pods'
import type { Ask } from '../../cluster/request'
import { failureOf } from '../../hub/errors'
import { Failed, Waiting } from '../../ui/Panel'

// The logs of a pod, or of all pods of a selector.
export function PodLogs({
  cluster,
  ask,
  namespace,
  pods,
}: {
  cluster: string
  ask: Ask
  namespace: string
  pods: Pods
}) {
  const of = 'name' in pods ? pods.name : 'selector' in pods ? pods.selector : pods.cronJob
  const found = useQuery({
    queryKey: ['pods', cluster, namespace, of],
    refetchInterval: 10_000,
    queryFn: () => readPods(ask, namespace, pods),
  })
  const names = JSON.stringify(containersOf(found.data ?? []))
  const containers = useMemo(() => JSON.parse(names) as Container[], [names])
  if (found.error && !found.data)
    return <Failed failure={failureOf(found.error)} again={() => void found.refetch()} />
  if (!found.data) return <Waiting what="pods" />
  return (
    <LogView ask={ask} name={of} containers={containers} none="There is no pod whose log could be read." />
  )
}
