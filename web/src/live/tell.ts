import type { QueryClient, QueryKey } from '@tanstack/react-query'

// The stream tells an answer once. A fetch that began before the stream told it may have read what was before, and must not replace it.
export function tell(queries: QueryClient, queryKey: QueryKey, answer: unknown) {
  void queries.cancelQueries({ queryKey, exact: true })
  queries.setQueryData(queryKey, answer)
}
