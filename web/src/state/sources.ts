import type { ServiceSpec, SourceSpec } from '../gen/fairlead/console/v1/resources_pb'

// urlOf is where a source is, whatever its kind.
export function urlOf(spec?: SourceSpec): string {
  return spec?.git?.url ?? spec?.helm?.url ?? ''
}

// followedBy is what a service follows: a ref, or a chart and its version; '' for the default branch.
export function followedBy(spec?: ServiceSpec): string {
  return spec?.chart ? `${spec.chart} ${spec.version}`.trim() : (spec?.ref ?? '')
}

// shownRef is the ref of a head as people call it: chart:web@^1 is web ^1.
export function shownRef(ref: string): string {
  return ref.startsWith('chart:') ? ref.slice('chart:'.length).replace('@', ' ').trim() : ref
}
