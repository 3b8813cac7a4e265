import type { BucketSource, ServiceSpec, Source, SourceSpec } from '../gen/fairlead/console/v1/resources_pb'

// wordOf is the state of a source. Refs that the Git host does not have concern the services that follow them only.
export function wordOf(source?: Source): 'failing' | 'ready' | 'pending' {
  const problem = source?.status?.problem
  if (problem && (problem.refs.length === 0 || problem.refProblems.some((one) => !one.missing)))
    return 'failing'
  return source?.status?.heads.length ? 'ready' : 'pending'
}

// urlOf is where a source is, whatever its kind.
export function urlOf(spec?: SourceSpec): string {
  return spec?.git?.url ?? spec?.helm?.url ?? spec?.oci?.url ?? urlOfBucket(spec?.bucket)
}

function urlOfBucket(bucket?: BucketSource): string {
  if (!bucket) return ''
  const scheme = bucket.insecure ? 'http' : 'https'
  return [`${scheme}://${bucket.endpoint}`, bucket.bucketName, bucket.prefix].filter(Boolean).join('/')
}

// sourceOf is the source of a service, or several, each with its name.
export function sourceOf(spec?: ServiceSpec): string {
  return spec?.sources.length
    ? spec.sources.map((s) => `${s.name}=${s.source}`).join(', ')
    : (spec?.source ?? '')
}

// followedBy is what a service follows: a ref, or a chart and its version, of several sources each with its name; '' for the default branch.
export function followedBy(spec?: ServiceSpec): string {
  if (spec?.sources.length)
    return spec.sources.map((s) => `${s.name}=${followed(s) || 'default branch'}`).join(', ')
  return followed(spec)
}

function followed(spec?: Pick<ServiceSpec, 'chart' | 'version' | 'ref'>): string {
  return spec?.chart ? `${spec.chart} ${spec.version}`.trim() : (spec?.ref ?? '')
}

// shownRef is the ref of a head, or what it was resolved to, as people call it: chart:web@^1 is web ^1, and an artifact is its tag and
// the beginning of its digest.
export function shownRef(ref: string): string {
  const artifact = /^tag:([^@]*)@(sha256:[0-9a-f]{12})/.exec(ref)
  if (artifact) return `${artifact[1]} (${artifact[2]})`
  if (ref.startsWith('combination:')) return 'with other sources'
  return ref.startsWith('chart:') ? ref.slice('chart:'.length).replace('@', ' ').trim() : ref
}

// chartOf is the chart and the version or range of a head's ref; nothing, if it is none of a chart.
export function chartOf(ref: string): { chart: string; version: string } | undefined {
  const [, chart, version] = /^chart:([^@]*)@(.*)$/.exec(ref) ?? []
  return chart === undefined ? undefined : { chart, version: version ?? '' }
}

// The one chart that services name, as they name it; nothing, where they name several or none.
export function onlyChart(refs: string[]): { chart: string; version: string } | undefined {
  const charts = refs.flatMap((r) => chartOf(r) ?? [])
  return charts.length === 1 ? charts[0] : undefined
}
