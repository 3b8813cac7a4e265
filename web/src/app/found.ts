import { addressOf, type Kind } from '../cluster/kinds'
import type { SearchResult } from '../gen/fairlead/console/v1/live_service_pb'
import { kinds } from '../ui/resources'
import type { Found } from './ranked'

// What the hub's search found, as a line that leads to its page. A kind of a newer hub has none.
export function foundAt(r: SearchResult, searched: boolean): Found[] {
  const kind = kinds.find((k) => k.kind === r.kind)
  if (!kind) return []
  const place = kind.name === 'Service' ? ` on ${r.cluster || 'the hub'}` : ''
  const by = r.field === 'name' ? '' : `, by ${r.field}`
  return [
    {
      name: r.name,
      to: `/${kind.path}/${r.name}`,
      what: `${words(kind.name)}${place}${r.state && `, ${r.state}`}${by}`,
      searched,
    },
  ]
}

// The kinds of objects of a cluster.
export const kindsAt = (cluster: string, of: Kind[]): Found[] =>
  of.map((k) => ({
    name: k.plural,
    to: addressOf(cluster, k),
    what: `kind${k.group && ` of ${k.group}`} in ${cluster}`,
  }))

// GlobalService is "global service".
const words = (name: string) => name.replace(/(?<!^)([A-Z])/g, ' $1').toLowerCase()
