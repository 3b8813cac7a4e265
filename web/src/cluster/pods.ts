import type { Kind } from './kinds'
import type { Container } from './logs'
import { type Ask, json } from './request'

type Selecting = { metadata: { name?: string }; spec?: Record<string, unknown> }

// Which pods have the logs of an object: itself, or those that its selector finds.
export type Pods = { name: string } | { selector: string }

export function podsOf(kind: Pick<Kind, 'group' | 'plural'>, of: Selecting | undefined): Pods | undefined {
  if (kind.group === '' && kind.plural === 'pods') return { name: of?.metadata.name ?? '' }
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

export type Pod = {
  metadata?: { name?: string; namespace?: string }
  spec?: { containers?: { name: string }[]; initContainers?: { name: string }[] }
}

export const containersOf = (pods: Pod[]): Container[] =>
  pods.flatMap((p) =>
    [...(p.spec?.initContainers ?? []), ...(p.spec?.containers ?? [])].map((c) => ({
      namespace: p.metadata?.namespace ?? '',
      pod: p.metadata?.name ?? '',
      container: c.name,
    })),
  )

export async function readPods(ask: Ask, namespace: string, pods: Pods): Promise<Pod[]> {
  const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods`
  if ('name' in pods) return [await json<Pod>(ask(`${path}/${encodeURIComponent(pods.name)}`))]
  const query = new URLSearchParams({ labelSelector: pods.selector, limit: '500' })
  return (await json<{ items?: Pod[] }>(ask(`${path}?${query}`))).items ?? []
}
