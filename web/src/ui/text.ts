import { type Timestamp, timestampDate } from '@bufbuild/protobuf/wkt'
import { isTime } from '../live/ages'

// Foreign text never decides how the page reads: control characters and those that turn the direction of writing are shown as codes.
const odd = /(?![\n\t])[\p{Cc}\p{Cf}]/gu
const most = 4096

export function plain(text: string, max = most): string {
  const cut = text.length > max ? `${text.slice(0, max)}… (${text.length - max} more characters)` : text
  return cut.replace(odd, (c) => `\\u{${c.codePointAt(0)?.toString(16)}}`)
}

// A time as programs read it; '' for none.
export function isoOf(t: Timestamp | undefined): string {
  const at = t && timestampDate(t)
  return at && isTime(at) ? at.toISOString() : ''
}

export const shortCommit = (id: string | undefined) => (id ? id.slice(0, 7) : '')
export const shortDigest = (digest: string | undefined) =>
  (digest ?? '').replace(/^[a-z0-9]+:/, '').slice(0, 8)

export function bytesOf(bytes: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB']
  let at = 0
  let n = bytes
  while (n >= 1024 && at < units.length - 1) {
    n /= 1024
    at++
  }
  return `${at === 0 || n >= 100 ? Math.round(n) : n.toFixed(1)} ${units[at]}`
}

// A message that something follows ends as a sentence.
export const sentence = (text: string) => (text === '' || /[.!?…)]$/.test(text.trim()) ? text : `${text}.`)

// How many there are of something: 1 pod, 2 pods.
export const amount = (n: number | bigint | undefined, one: string) =>
  `${n === undefined ? '–' : Number(n).toLocaleString()} ${Number(n) === 1 ? one : `${one}s`}`

// The word for several objects of a kind: 2 Ingresses, 2 NetworkPolicies.
const several = (kind: string) => {
  if (kind === 'Endpoints') return kind
  if (/[^aeiou]y$/.test(kind)) return `${kind.slice(0, -1)}ies`
  return /(s|x|z|ch|sh)$/.test(kind) ? `${kind}es` : `${kind}s`
}

// So many objects of a kind are named.
export const mostOfKind = 3

// Objects of a kind, the first of them by name: 4 ConfigMaps: a, b, c and 1 more. More may be there than have a name.
export function ofKind(kind: string, names: string[], count = names.length): string {
  const shown = names.slice(0, mostOfKind).join(', ')
  const more = count - Math.min(names.length, mostOfKind)
  const rest = shown && more > 0 ? ` and ${more.toLocaleString()} more` : ''
  return `${count.toLocaleString()} ${count === 1 ? kind : several(kind)}${shown && `: ${shown}${rest}`}`
}

// Labels in the order of their names: the hub sends them in any order, and another one with each answer.
export const pairsOf = (labels: Record<string, string> | undefined, between = ' ') =>
  Object.entries(labels ?? {})
    .map(([name, value]) => `${name}=${value}`)
    .sort()
    .join(between)
