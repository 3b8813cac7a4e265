import type { DescMessage, DescMethodUnary, Message, MessageInitShape } from '@bufbuild/protobuf'
import { createClient } from '@connectrpc/connect'
import { createConnectQueryKey, useQuery, useTransport } from '@connectrpc/connect-query'
import { keepPreviousData, useQueryClient } from '@tanstack/react-query'
import { useEffect, useSyncExternalStore } from 'react'
import { LiveService } from '../gen/fairlead/console/v1/live_service_pb'
import { transport } from '../hub/transport'
import { answerOf } from './answers'
import { every } from './asked'
import { Stream } from './stream'
import { tell } from './tell'

const client = createClient(LiveService, transport)

export const stream = new Stream((request, signal) => client.watchQueries(request, { signal, timeoutMs: 0 }))

// Over HTTP/1.1 a browser has six connections to a host, for all of its tabs: there a tab polls.
export function holdStream(): () => void {
  const [page] = performance.getEntriesByType('navigation') as PerformanceNavigationTiming[]
  const few = page?.nextHopProtocol === 'http/1.1'
  const look = () => stream.pause(few || document.visibilityState === 'hidden')
  look()
  const again = () => stream.retry()
  document.addEventListener('visibilitychange', look)
  window.addEventListener('online', again)
  return () => {
    document.removeEventListener('visibilitychange', look)
    window.removeEventListener('online', again)
    stream.pause(true)
  }
}

export const useStream = () => useSyncExternalStore(stream.subscribe, () => stream.status)

// A query whose answer the tab's stream keeps up to date. While the stream does not carry it, it is polled.
export function useLive<I extends DescMessage, O extends DescMessage>(
  method: DescMethodUnary<I, O>,
  input: MessageInitShape<I>,
  options: { keep?: boolean; enabled?: boolean } = {},
) {
  const queries = useQueryClient()
  const at = useTransport()
  const queryKey = createConnectQueryKey({ schema: method, input, transport: at, cardinality: 'finite' })
  const key = JSON.stringify(queryKey[1], (_, v) => (typeof v === 'bigint' ? String(v) : v))
  const enabled = options.enabled ?? true
  const carried = useSyncExternalStore(stream.subscribe, () => stream.carries(key))
  // biome-ignore lint/correctness/useExhaustiveDependencies: the key says all of the method, the input and the transport
  useEffect(() => {
    if (!enabled) return
    const answer = () => answerOf(method, input as Record<string, unknown>)
    if (!answer()) return
    return stream.want(
      key,
      () => answer() as NonNullable<ReturnType<typeof answer>>,
      (data: Message) => tell(queries, queryKey, data),
    )
  }, [key, enabled])
  const query = useQuery(method, input, {
    enabled,
    refetchInterval: carried ? false : every,
    refetchOnWindowFocus: carried ? false : 'always',
    ...(options.keep ? { placeholderData: keepPreviousData as never } : {}),
  })
  // A heartbeat says that the answer is the newest, and draws nothing.
  return Object.defineProperty({ ...query }, 'dataUpdatedAt', {
    get: () =>
      stream.carries(key) ? Math.max(query.dataUpdatedAt, stream.status.asOf) : query.dataUpdatedAt,
  })
}
