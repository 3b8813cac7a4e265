import { type Ask, json } from './request'

// A kind of objects that a cluster has.
export type Kind = {
  group: string // '' is the core
  version: string
  plural: string
  kind: string
  namespaced: boolean
  verbs: string[]
  short: string[]
  parts: string[] // subresources, such as scale
}

type Discovered = {
  items?: {
    metadata?: { name?: string }
    versions?: {
      version: string
      resources?: {
        resource: string
        responseKind?: { kind?: string }
        scope?: string
        verbs?: string[]
        shortNames?: string[]
        subresources?: { subresource: string }[]
      }[]
    }[]
  }[]
}

const accept = ['v2', 'v2beta1']
  .map((v) => `application/json;g=apidiscovery.k8s.io;v=${v};as=APIGroupDiscoveryList`)
  .join(',')

// All kinds that can be listed, in the version that the cluster prefers.
export async function discover(ask: Ask): Promise<Kind[]> {
  const get = (path: string) => json<Discovered>(ask(path, { headers: { Accept: accept } }))
  const found = await Promise.all([get('/api'), get('/apis')])
  return found.flatMap(kindsOf)
}

export function kindsOf(found: Discovered): Kind[] {
  const kinds = new Map<string, Kind>()
  for (const g of found.items ?? []) {
    const group = g.metadata?.name ?? ''
    for (const { version, resources } of g.versions ?? [])
      for (const r of resources ?? []) {
        const key = `${group}/${r.resource}`
        if (kinds.has(key) || !r.verbs?.includes('list')) continue
        kinds.set(key, {
          group,
          version,
          plural: r.resource,
          kind: r.responseKind?.kind ?? r.resource,
          namespaced: r.scope === 'Namespaced',
          verbs: r.verbs,
          short: r.shortNames ?? [],
          parts: (r.subresources ?? []).map((s) => s.subresource),
        })
      }
  }
  return [...kinds.values()]
}

// The path of a kind's objects, of one namespace or all, or of one object.
export function pathOf(kind: Pick<Kind, 'group' | 'version' | 'plural'>, namespace = '', name = ''): string {
  const part = encodeURIComponent
  const root = kind.group ? `/apis/${part(kind.group)}/${part(kind.version)}` : `/api/${part(kind.version)}`
  return `${root}${namespace ? `/namespaces/${part(namespace)}` : ''}/${part(kind.plural)}${name ? `/${part(name)}` : ''}`
}

// The sections of the list of kinds, in the order in which people look for them.
const sections: [string, string[]][] = [
  [
    'Workloads',
    [
      '/pods',
      'apps/deployments',
      'apps/statefulsets',
      'apps/daemonsets',
      'apps/replicasets',
      'batch/jobs',
      'batch/cronjobs',
      'autoscaling/horizontalpodautoscalers',
    ],
  ],
  [
    'Network',
    [
      '/services',
      'networking.k8s.io/ingresses',
      'networking.k8s.io/networkpolicies',
      'discovery.k8s.io/endpointslices',
    ],
  ],
  [
    'Configuration',
    [
      '/configmaps',
      '/secrets',
      '/serviceaccounts',
      'policy/poddisruptionbudgets',
      '/resourcequotas',
      '/limitranges',
    ],
  ],
  ['Storage', ['/persistentvolumeclaims', '/persistentvolumes', 'storage.k8s.io/storageclasses']],
  ['Cluster', ['/namespaces', '/nodes', '/events', 'apiextensions.k8s.io/customresourcedefinitions']],
  [
    'Access',
    [
      'rbac.authorization.k8s.io/roles',
      'rbac.authorization.k8s.io/rolebindings',
      'rbac.authorization.k8s.io/clusterroles',
      'rbac.authorization.k8s.io/clusterrolebindings',
    ],
  ],
]

const builtIn = (group: string) => !group.includes('.') || group.endsWith('.k8s.io')

// The kinds by sections: custom ones by their group, and what else Kubernetes has at the end.
export function sectioned(kinds: Kind[]): { name: string; kinds: Kind[] }[] {
  const by = new Map(kinds.map((k) => [`${k.group}/${k.plural}`, k]))
  const out = sections.map(([name, keys]) => ({ name, kinds: keys.flatMap((k) => by.get(k) ?? []) }))
  for (const k of out.flatMap((s) => s.kinds)) by.delete(`${k.group}/${k.plural}`)
  const rest = [...by.values()].sort((a, b) => a.kind.localeCompare(b.kind))
  const groups = new Set(rest.map((k) => k.group).filter((g) => !builtIn(g)))
  for (const name of [...groups].sort()) out.push({ name, kinds: rest.filter((k) => k.group === name) })
  out.push({ name: 'Other', kinds: rest.filter((k) => builtIn(k.group)) })
  return out.filter((s) => s.kinds.length > 0)
}

// The page of a kind of a cluster.
export const addressOf = (cluster: string, kind: Kind, search = '') =>
  `/cluster/${cluster}/explore/${[kind.group || 'core', kind.version, kind.plural].map(encodeURIComponent).join('/')}${search && `?${search}`}`
