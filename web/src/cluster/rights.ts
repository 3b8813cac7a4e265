import { useQuery } from '@tanstack/react-query'
import { type Ask, json } from './request'

export type Wish = {
  verb: string
  group: string
  resource: string
  subresource?: string
  namespace?: string
  name?: string
}

export type Right = { allowed: boolean; reason: string }

// Asks the cluster whether the person may do something. What can't be asked is tried: the refusal says why.
export function useRight(cluster: string, ask: Ask, wish: Wish, enabled = true): Right {
  const asked = useQuery({
    queryKey: ['right', cluster, wish],
    enabled,
    staleTime: 60_000,
    refetchInterval: 60_000,
    queryFn: () => review(ask, wish),
  })
  return asked.data ?? { allowed: true, reason: '' }
}

export async function review(ask: Ask, wish: Wish): Promise<Right> {
  const answer = await json<{ status?: { allowed?: boolean; reason?: string } }>(
    ask('/apis/authorization.k8s.io/v1/selfsubjectaccessreviews', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({
        apiVersion: 'authorization.k8s.io/v1',
        kind: 'SelfSubjectAccessReview',
        spec: { resourceAttributes: wish },
      }),
    }),
  )
  const what = `${wish.verb} ${wish.resource}${wish.subresource ? `/${wish.subresource}` : ''}${wish.namespace ? ` in ${wish.namespace}` : ''}`
  return {
    allowed: answer.status?.allowed === true,
    reason: answer.status?.reason || `You may not ${what}: no role that this cluster binds you to allows it.`,
  }
}
