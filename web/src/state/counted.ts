import { isState, type State } from './states'

export type Count = { values: string[]; count: number }

// How many services each cluster has in each state, of counts by cluster and state.
export function countedBy(services: Count[]): Map<string, Map<State, number>> {
  const of = new Map<string, Map<State, number>>()
  for (const { values, count } of services) {
    const [cluster = '', name = ''] = values
    const state = isState(name) ? name : 'unknown'
    const known = of.get(cluster) ?? new Map<State, number>()
    known.set(state, (known.get(state) ?? 0) + count)
    of.set(cluster, known)
  }
  return of
}
