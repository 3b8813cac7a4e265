import { type ClusterStatus, ServiceState } from '../gen/fairlead/console/v1/resources_pb'

// The states of services, the worst first, in the hub's own words.
export const worstFirst = [
  'failed',
  'degraded',
  'unknown',
  'differs',
  'waiting',
  'held',
  'pending',
  'progressing',
  'healthy',
] as const

export type State = (typeof worstFirst)[number]

const byNumber: Record<number, State> = {
  [ServiceState.PENDING]: 'pending',
  [ServiceState.PROGRESSING]: 'progressing',
  [ServiceState.HEALTHY]: 'healthy',
  [ServiceState.DEGRADED]: 'degraded',
  [ServiceState.FAILED]: 'failed',
  [ServiceState.UNKNOWN]: 'unknown',
  [ServiceState.HELD]: 'held',
  [ServiceState.WAITING]: 'waiting',
  [ServiceState.DIFFERS]: 'differs',
}

// A state that a newer hub made up is unknown here.
export const stateOf = (number: ServiceState | undefined): State => byNumber[number ?? 0] ?? 'unknown'

export const isState = (text: string): text is State => (worstFirst as readonly string[]).includes(text)

export function worst(states: Iterable<State>): State | undefined {
  let found = worstFirst.length as number
  for (const s of states) found = Math.min(found, worstFirst.indexOf(s))
  return worstFirst[found]
}

// What is not well needs words beside it: from waiting up.
export const needsWords = (s: State) => worstFirst.indexOf(s) <= worstFirst.indexOf('waiting')

export const healthState: Record<string, State> = {
  Healthy: 'healthy',
  Progressing: 'progressing',
  Degraded: 'degraded',
  Missing: 'degraded',
  Failed: 'failed',
  Unknown: 'unknown',
}

// Whether the hub hears of a cluster's agent. A cluster that is connected may have services that are not healthy.
export function connectionOf(of: ClusterStatus | undefined): [state: State, word: string] {
  if (of?.connected) return ['healthy', 'connected']
  if (of?.leaveTime) return ['unknown', 'left']
  return ['unknown', of?.joinTime || of?.lastSeenTime ? 'not connected' : 'never joined']
}
