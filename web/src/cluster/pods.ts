import { Code, ConnectError } from '@connectrpc/connect'
import { type Kind, pathOf } from './kinds'
import type { Container } from './logs'
import { type Ask, json } from './request'

type Selecting = { metadata: { name?: string }; spec?: Record<string, unknown> }

// Which pods have the logs of an object: itself, those that its selector finds, or those of the last jobs of a CronJob.
export type Pods = { name: string } | { selector: string } | { cronJob: string }

// Jobs of a CronJob that are looked at, the newest.
const mostJobs = 5

export function podsOf(kind: Pick<Kind, 'group' | 'plural'>, of: Selecting | undefined): Pods | undefined {
  if (kind.group === '' && kind.plural === 'pods') return { name: of?.metadata.name ?? '' }
  if (kind.group === 'batch' && kind.plural === 'cronjobs') return { cronJob: of?.metadata.name ?? '' }
  const selector = of?.spec?.selector as
    | {
        matchLabels?: Record<string, string>
        matchExpressions?: { key: string; operator: string; values?: string[] }[]
      }
    | Record<string, string>
    | undefined
  if (!selector) return undefined
  if (kind.group === '' && (kind.plural === 'services' || kind.plural === 'replicationcontrollers'))
    return { selector: equal(selector as Record<string, string>) }
  if (kind.group !== 'apps' && kind.group !== 'batch') return undefined
  const { matchLabels = {}, matchExpressions = [] } = selector as {
    matchLabels?: Record<string, string>
    matchExpressions?: { key: string; operator: string; values?: string[] }[]
  }
  const parts = matchExpressions.map(({ key, operator, values = [] }) =>
    operator === 'Exists'
      ? key
      : operator === 'DoesNotExist'
        ? `!${key}`
        : `${key} ${operator === 'In' ? 'in' : 'notin'} (${values.join(',')})`,
  )
  const text = [equal(matchLabels), ...parts].filter(Boolean).join(',')
  return text ? { selector: text } : undefined
}

const equal = (labels: Record<string, string>) =>
  Object.entries(labels)
    .map(([k, v]) => `${k}=${v}`)
    .join(',')

export type ContainerStatus = {
  name?: string
  ready?: boolean
  restartCount?: number
  state?: Record<string, { reason?: string; message?: string; exitCode?: number } | undefined>
  lastState?: Record<string, { reason?: string; message?: string; exitCode?: number } | undefined>
}

export type Pod = {
  metadata?: {
    name?: string
    namespace?: string
    uid?: string
    ownerReferences?: { kind?: string; name?: string }[]
  }
  spec?: { containers?: { name: string }[]; initContainers?: { name: string }[] }
  status?: {
    phase?: string
    reason?: string
    message?: string
    initContainerStatuses?: ContainerStatus[]
    containerStatuses?: ContainerStatus[]
    conditions?: { type?: string; status?: string; reason?: string; message?: string }[]
  }
}

type Job = {
  metadata?: {
    name?: string
    creationTimestamp?: string
    ownerReferences?: { kind?: string; name?: string; controller?: boolean }[]
  }
  spec?: Record<string, unknown>
}

export const containersOf = (pods: Pod[]): Container[] =>
  pods.flatMap((p) =>
    [...(p.spec?.initContainers ?? []), ...(p.spec?.containers ?? [])].map((c) => ({
      namespace: p.metadata?.namespace ?? '',
      pod: p.metadata?.name ?? '',
      container: c.name,
      uid: p.metadata?.uid,
    })),
  )

export async function readPods(ask: Ask, namespace: string, pods: Pods): Promise<Pod[]> {
  const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods`
  if ('name' in pods) return [await json<Pod>(ask(`${path}/${encodeURIComponent(pods.name)}`))]
  if ('cronJob' in pods) {
    const jobs = await jobsOf(ask, namespace, pods.cronJob)
    return (await Promise.all(jobs.map((selector) => readPods(ask, namespace, { selector })))).flat()
  }
  const query = new URLSearchParams({ labelSelector: pods.selector, limit: '500' })
  return (await json<{ items?: Pod[] }>(ask(`${path}?${query}`))).items ?? []
}

// The selectors of the newest jobs that a CronJob made.
async function jobsOf(ask: Ask, namespace: string, cronJob: string): Promise<string[]> {
  const path = `/apis/batch/v1/namespaces/${encodeURIComponent(namespace)}/jobs`
  const { items = [] } = await json<{ items?: Job[] }>(ask(`${path}?limit=500`))
  return items
    .filter((j) =>
      j.metadata?.ownerReferences?.some((o) => o.controller && o.kind === 'CronJob' && o.name === cronJob),
    )
    .sort((a, b) => (b.metadata?.creationTimestamp ?? '').localeCompare(a.metadata?.creationTimestamp ?? ''))
    .slice(0, mostJobs)
    .flatMap((j) => {
      const pods = podsOf(
        { group: 'batch', plural: 'jobs' },
        { metadata: {}, ...(j.spec ? { spec: j.spec } : {}) },
      )
      return pods && 'selector' in pods ? [pods.selector] : []
    })
}

// Kinds whose pods have logs.
const workloads: Record<string, { group: string; version: string; plural: string }> = {
  'apps/Deployment': { group: 'apps', version: 'v1', plural: 'deployments' },
  'apps/StatefulSet': { group: 'apps', version: 'v1', plural: 'statefulsets' },
  'apps/DaemonSet': { group: 'apps', version: 'v1', plural: 'daemonsets' },
  'batch/Job': { group: 'batch', version: 'v1', plural: 'jobs' },
  'batch/CronJob': { group: 'batch', version: 'v1', plural: 'cronjobs' },
  'apps/ReplicaSet': { group: 'apps', version: 'v1', plural: 'replicasets' },
  '/Pod': { group: '', version: 'v1', plural: 'pods' },
}

type Named = { group: string; kind: string; namespace: string; name: string }

export const workloadOf = (of: Named) => workloads[`${of.group}/${of.kind}`]

// The pods of an object of a service; none, if the kind has none.
export async function podsOfObject(ask: Ask, of: Named): Promise<Pod[]> {
  const kind = workloadOf(of)
  if (!kind) return []
  const thing = await json<Selecting>(ask(pathOf(kind, of.namespace, of.name)))
  const pods = podsOf(kind, thing)
  return pods ? readPods(ask, of.namespace, pods) : []
}

// An object that is gone has no pods; that the person may not see them is said.
export function noPods(e: unknown): Pod[] {
  if (ConnectError.from(e).code === Code.NotFound) return []
  throw e
}
