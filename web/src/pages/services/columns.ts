import type { Service } from '../../gen/fairlead/console/v1/resources_pb'
import { leversOf } from '../../state/levers'
import { followedBy, sourceOf } from '../../state/sources'
import { stateOf } from '../../state/states'
import { isoOf, pairsOf } from '../../ui/text'

// The columns beside the name, in their order.
export const columns = [
  'cluster',
  'state',
  'since',
  'git',
  'hub',
  'applied',
  'levers',
  'source',
  'project',
  'ref',
  'path',
  'labels',
] as const
export type Name = (typeof columns)[number]

export const usual: Name[] = ['cluster', 'state', 'since', 'git', 'hub', 'applied', 'levers', 'source']

// The columns that an address names.
export const shownIn = (params: URLSearchParams): ReadonlySet<string> =>
  new Set((params.get('cols') ?? usual.join(',')).split(','))

// Shows or hides a column in an address.
export function flip(params: URLSearchParams, column: Name, on: boolean) {
  const shown = shownIn(params)
  const next = columns.filter((c) => (c === column ? on : shown.has(c)))
  if (next.join() === usual.join()) params.delete('cols')
  else params.set('cols', next.join(','))
}

export const titles: Record<Name, string> = {
  cluster: 'Cluster',
  state: 'State',
  since: 'Since',
  git: 'Git',
  hub: 'Hub',
  applied: 'Applied',
  levers: 'Levers',
  source: 'Source',
  project: 'Project',
  ref: 'Ref',
  path: 'Path',
  labels: 'Labels',
}

// The hub's fields of those that it sorts by.
export const sortable: Partial<Record<Name, string>> = {
  cluster: 'cluster',
  state: 'state',
  since: 'state_since',
  source: 'source',
  project: 'project',
  ref: 'ref',
  path: 'path',
}

// A service as it is exported.
export function rowOf(s: Service): Record<string, string> {
  const report = s.status?.cluster?.report
  return {
    name: s.metadata?.name ?? '',
    cluster: s.spec?.cluster ?? '',
    state: stateOf(s.status?.state),
    since: isoOf(s.status?.stateSince),
    git: s.status?.git?.revision?.commit ?? '',
    hub: s.status?.hub?.revision?.commit ?? '',
    applied: report?.appliedCommit ?? '',
    levers: leversOf(s),
    source: sourceOf(s.spec),
    project: s.spec?.project ?? '',
    ref: followedBy(s.spec),
    path: s.spec?.path ?? '',
    labels: pairsOf(s.metadata?.labels),
  }
}
