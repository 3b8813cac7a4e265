import { amount } from '../ui/text'

// JSON Patch (RFC 6902) of the fields that a person changed, each with a test of the value that the person saw. So a change of somebody else to another field stays,
// and one to the same field is refused instead of overwritten.
export type Operation = { op: 'add' | 'remove' | 'replace' | 'test'; path: string; value?: unknown }

type Value = unknown

const isMap = (v: Value): v is Record<string, Value> =>
  v !== null && typeof v === 'object' && !Array.isArray(v)
const escaped = (key: string) => key.replaceAll('~', '~0').replaceAll('/', '~1')

export function patchOf(before: Value, after: Value, path = ''): Operation[] {
  if (same(before, after)) return []
  if (!isMap(before) || !isMap(after))
    return [
      { op: 'test', path, value: before },
      { op: 'replace', path, value: after },
    ]
  const out: Operation[] = []
  for (const key of Object.keys(before)) {
    const at = `${path}/${escaped(key)}`
    if (!(key in after)) out.push({ op: 'test', path: at, value: before[key] }, { op: 'remove', path: at })
    else out.push(...patchOf(before[key], after[key], at))
  }
  for (const key of Object.keys(after))
    if (!(key in before)) {
      const at = `${path}/${escaped(key)}`
      // For an API server a field that is not there is null.
      out.push({ op: 'test', path: at, value: null }, { op: 'add', path: at, value: after[key] })
    }
  return out
}

// A field that a person changed, and that somebody else has changed since the person saw it.
export type Conflict = { path: string; was: Value; now: Value }

// What would refuse a patch of an object, as it is now: an API server does not say which field it was.
export const conflictsOf = (patch: Operation[], now: Value): Conflict[] =>
  patch.flatMap(({ op, path, value }) => {
    const found = op === 'test' ? valueAt(now, path) : undefined
    return op !== 'test' || same(found ?? null, value ?? null) ? [] : [{ path, was: value, now: found }]
  })

function valueAt(of: Value, path: string): Value {
  for (const part of path.split('/').slice(1)) {
    const key = part.replaceAll('~1', '/').replaceAll('~0', '~')
    of = isMap(of) && Object.hasOwn(of, key) ? of[key] : undefined
  }
  return of
}

export function same(a: Value, b: Value): boolean {
  if (a === b) return true
  if (Array.isArray(a) && Array.isArray(b)) return a.length === b.length && a.every((v, i) => same(v, b[i]))
  if (!isMap(a) || !isMap(b)) return false
  const keys = Object.keys(a)
  return keys.length === Object.keys(b).length && keys.every((k) => k in b && same(a[k], b[k]))
}

export type Line = { sign: ' ' | '-' | '+' | '…'; text: string }

// Lines of two texts, with as many unchanged ones around each change as help to find it. What is between is counted.
export function diffLines(before: string, after: string, around = 3): Line[] {
  const a = before.split('\n')
  const b = after.split('\n')
  let head = 0
  while (head < a.length && head < b.length && a[head] === b[head]) head++
  let tail = 0
  while (
    tail < a.length - head &&
    tail < b.length - head &&
    a[a.length - 1 - tail] === b[b.length - 1 - tail]
  )
    tail++
  const middle = changed(a.slice(head, a.length - tail), b.slice(head, b.length - tail))
  const all: Line[] = [
    ...a.slice(0, head).map(kept),
    ...middle,
    ...(tail > 0 ? a.slice(-tail).map(kept) : []),
  ]
  return folded(all, around)
}

const kept = (text: string): Line => ({ sign: ' ', text })

// The longest common lines, for what is small; beyond it is all removed and all added.
const mostCells = 4_000_000

function changed(a: string[], b: string[]): Line[] {
  if (a.length * b.length > mostCells)
    return [...a.map((text): Line => ({ sign: '-', text })), ...b.map((text): Line => ({ sign: '+', text }))]
  const wide = b.length + 1
  const common = new Uint32Array((a.length + 1) * wide)
  const of = (i: number, j: number) => common[i * wide + j] ?? 0
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      common[i * wide + j] = a[i] === b[j] ? of(i + 1, j + 1) + 1 : Math.max(of(i + 1, j), of(i, j + 1))
  const out: Line[] = []
  let i = 0
  let j = 0
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      out.push(kept(a[i] ?? ''))
      i++
      j++
    } else if (i < a.length && (j >= b.length || of(i + 1, j) >= of(i, j + 1)))
      out.push({ sign: '-', text: a[i++] ?? '' })
    else out.push({ sign: '+', text: b[j++] ?? '' })
  }
  return out
}

function folded(all: Line[], around: number): Line[] {
  const near = new Set<number>()
  all.forEach((l, i) => {
    if (l.sign !== ' ') for (let k = i - around; k <= i + around; k++) near.add(k)
  })
  const out: Line[] = []
  let hidden = 0
  const flush = () => {
    if (hidden > 0) out.push({ sign: '…', text: `${amount(hidden, 'line')} the same` })
    hidden = 0
  }
  all.forEach((l, i) => {
    if (near.has(i)) {
      flush()
      out.push(l)
    } else hidden++
  })
  flush()
  return out
}
