import {
  create,
  type DescEnum,
  type DescField,
  type DescMessage,
  fromJson,
  type JsonObject,
  type JsonValue,
  ScalarType,
} from '@bufbuild/protobuf'
import { type Document, isMap, isNode, isScalar, LineCounter, parseAllDocuments } from 'yaml'
import { type Resource, ResourceSchema } from '../../gen/fairlead/console/v1/apply_service_pb'
import { kindNamed, kinds, type ResourceKind, wordOf } from '../../ui/resources'

// A problem stands at a line of the text; 0: it is about all of it.
export type Problem = { line: number; message: string }

export type Read = {
  resources: Resource[]
  problems: Problem[]
  lineOf: (index: number, field: string) => number
}

// More is not read in a page, which would stand still meanwhile.
const most = 1 << 20

type Path = (string | number)[]

// Reads what `fairlead apply -f` reads. What the hub fills in is left out.
export function read(text: string, etag: string): Read {
  if (text.length > most) {
    const message = 'This is more than 1 MiB: apply it with `fairlead apply -f`.'
    return { resources: [], problems: [{ line: 0, message }], lineOf: () => 0 }
  }
  const lines = new LineCounter()
  const documents = parseAllDocuments(text, { lineCounter: lines, uniqueKeys: true })
  const problems: Problem[] = []
  const resources: Resource[] = []
  const sources: Document[] = []
  for (const d of 'empty' in documents ? [] : documents) {
    for (const e of d.errors)
      problems.push({ line: lines.linePos(e.pos[0]).line, message: e.message.split('\n')[0] ?? '' })
    if (d.errors.length > 0 || d.contents === null) continue
    const line = (path: Path) => lineAt(d, lines, path)
    let value: JsonValue
    try {
      value = d.toJS({ maxAliasCount: 100 }) as JsonValue
    } catch (e) {
      problems.push({ line: line([]), message: e instanceof Error ? e.message : String(e) })
      continue
    }
    const made = resourceOf(value, etag, (path, message) => problems.push({ line: line(path), message }))
    if (!made) continue
    resources.push(made)
    sources.push(d)
  }
  if (resources.length === 0 && problems.length === 0)
    problems.push({ line: 0, message: 'There is no resource in it yet.' })
  return {
    resources,
    problems,
    lineOf: (index, field) => {
      const d = sources[index]
      return d ? lineAt(d, lines, pathOf(field)) : 0
    },
  }
}

// spec.git.url, spec.sync.depends_on[0], data["a.b"]
export function pathOf(field: string): Path {
  const out: Path = []
  for (const [, name, number, quoted] of field.matchAll(/([^.[\]"]+)|\[(\d+)\]|\["([^"]*)"\]/g)) {
    if (number !== undefined) out.push(Number(number))
    else out.push(quoted ?? camel(name ?? ''))
  }
  return out
}

const camel = (name: string) => name.replace(/_([a-z0-9])/g, (_, c: string) => c.toUpperCase())

// The line of the deepest part of a path that is there.
function lineAt(d: Document, lines: LineCounter, path: Path): number {
  for (let n = path.length; n >= 0; n--) {
    const part = path.slice(0, n)
    const parent = n > 0 ? d.getIn(part.slice(0, -1), true) : undefined
    const pair = isMap(parent)
      ? parent.items.find((p) => isScalar(p.key) && String(p.key.value) === String(part[n - 1]))
      : undefined
    const node = pair && isNode(pair.key) ? pair.key : n > 0 ? d.getIn(part, true) : d.contents
    if (isNode(node) && node.range) return lines.linePos(node.range[0]).line
  }
  return 0
}

type Complain = (path: Path, message: string) => void

function resourceOf(value: JsonValue, etag: string, complain: Complain): Resource | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    complain([], 'A document must be a resource: it begins with apiVersion and kind.')
    return undefined
  }
  const { apiVersion, kind, status: _, levers: __, ...rest } = value
  const of = typeof kind === 'string' ? kindNamed(kind) : undefined
  if (apiVersion !== 'fairlead.dev/v1') {
    complain(['apiVersion'], 'apiVersion must be fairlead.dev/v1.')
    return undefined
  }
  if (!of) {
    complain(['kind'], `kind must be one of ${kinds.map((k) => k.name).join(', ')}.`)
    return undefined
  }
  let fine = true
  const json = walk(of.schema, rest, [], (path, message) => {
    fine = false
    complain(path, message)
  }) as JsonObject
  if (!fine) return undefined
  const metadata = { ...((json.metadata ?? {}) as JsonObject) }
  for (const output of ['uid', 'revision', 'createTime', 'updateTime']) delete metadata[output]
  if (etag) metadata.etag ??= etag
  try {
    return envelope(of, { ...json, metadata })
  } catch (e) {
    const words = String(e instanceof Error ? e.message : e)
    const field = /field [\w.]*?(\w+) from JSON/.exec(words)?.[1] ?? ''
    complain(found(json, camel(field)), words.replace(/^.*?: /, `${camel(field)}: `))
    return undefined
  }
}

// Where a field of a name stands, if it stands somewhere.
function found(json: JsonValue, name: string, path: Path = []): Path {
  if (typeof json !== 'object' || json === null) return []
  for (const [key, below] of Object.entries(json)) {
    if (key === name) return [...path, key]
    const deeper = found(below as JsonValue, name, [...path, Array.isArray(json) ? Number(key) : key])
    if (deeper.length > 0) return deeper
  }
  return []
}

function envelope(of: ResourceKind, json: JsonObject): Resource {
  const name = of.name.charAt(0).toLowerCase() + of.name.slice(1)
  return create(ResourceSchema, {
    resource: { case: name, value: fromJson(of.schema, json) } as Resource['resource'],
  })
}

// Brings words of YAML into those of the API's JSON, and complains of what is no field.
function walk(desc: DescMessage, value: JsonValue, path: Path, complain: Complain): JsonValue {
  if (desc.typeName === 'google.protobuf.Duration') return seconds(value)
  if (
    desc.typeName.startsWith('google.protobuf.') ||
    typeof value !== 'object' ||
    value === null ||
    Array.isArray(value)
  )
    return value
  const out: JsonObject = {}
  for (const [key, below] of Object.entries(value)) {
    const field = desc.fields.find((f) => f.jsonName === key || f.name === key)
    if (field) out[key] = walkField(field, below, [...path, key], complain)
    else
      complain(
        [...path, key],
        `${key} is no field here. There are ${desc.fields.map((f) => f.jsonName).join(', ')}.`,
      )
  }
  return out
}

function walkField(field: DescField, value: JsonValue, path: Path, complain: Complain): JsonValue {
  const one = (v: JsonValue, at: Path): JsonValue => {
    if (field.message) return walk(field.message, v, at, complain)
    if (!field.enum || typeof v !== 'string') return v
    const word = v.toUpperCase().replaceAll('-', '_')
    const found = field.enum.values.find(
      (x) => x.name === v || x.name === `${field.enum?.sharedPrefix ?? ''}${word}`.toUpperCase(),
    )
    if (!found) complain(at, `${v}: there are ${words(field).join(', ')}.`)
    return found?.name ?? v
  }
  if (field.fieldKind === 'list' && Array.isArray(value)) return value.map((v, i) => one(v, [...path, i]))
  if (field.fieldKind === 'map' && typeof value === 'object' && value !== null && !Array.isArray(value))
    return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, one(v, [...path, k])]))
  return field.fieldKind === 'list' || field.fieldKind === 'map' ? value : one(value, path)
}

// The words of an enum, as files say them.
export const words = (field: DescField): string[] =>
  (field.enum?.values ?? []).filter((v) => v.number !== 0).map((v) => wordOf(field.enum as DescEnum, v.name))

const units: Record<string, number> = {
  ns: 1e-9,
  us: 1e-6,
  µs: 1e-6,
  μs: 1e-6,
  ms: 1e-3,
  s: 1,
  m: 60,
  h: 3600,
}
const part = /(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)/g
const length = new RegExp(`^[+-]?(${part.source})+$`)

// A length of time as `fairlead apply -f` reads it, 1h30m or 500ms, in seconds, which the API's JSON has, to the nanosecond.
function seconds(value: JsonValue): JsonValue {
  if (typeof value !== 'string' || !length.test(value)) return value
  let sum = 0
  for (const [, n, unit = ''] of value.matchAll(part)) sum += Number(n) * (units[unit] ?? 0)
  return `${value.startsWith('-') ? '-' : ''}${sum.toFixed(9).replace(/\.?0+$/, '')}s`
}

// The field that stands at a place of the text, and what is typed of it. A value has the field whose key stands before it.
function placeAt(text: string, offset: number) {
  const before = text.slice(0, offset)
  const lines = before.slice(before.lastIndexOf('\n---') + 1).split('\n')
  const typed = lines.at(-1) ?? ''
  let indent = typed.length - typed.trimStart().length
  const keys: string[] = []
  for (const line of lines.slice(0, -1).toReversed()) {
    const at = line.length - line.trimStart().length
    const key = /^\s*(?:- )?(\w+):\s*$/.exec(line)?.[1]
    if (key && at < indent) {
      keys.unshift(key)
      indent = at
    }
  }
  const kind = /^kind:\s*(\w+)/m.exec(lines.join('\n'))?.[1]
  let desc: DescMessage | undefined = kindNamed(kind ?? '')?.schema
  for (const key of keys) desc = desc?.fields.find((f) => f.jsonName === key)?.message
  return { typed, desc, top: keys.length === 0 && indent === 0 }
}

const output = new Set(['status', 'uid', 'revision', 'etag', 'createTime', 'updateTime'])

// What could come next at a place in the text: the fields of the message that the line is in.
export function fieldsAt(text: string, offset: number): string[] {
  const { typed, desc } = placeAt(text, offset)
  if (!/^[\s-]*\w*$/.test(typed)) return []
  const begun = typed.trim().replace(/^- /, '')
  return (desc?.fields ?? []).map((f) => f.jsonName).filter((f) => f.startsWith(begun) && !output.has(f))
}

// What an editor completes: names of fields, and behind a name the words that the field takes.
export function completeAt(text: string, offset: number): { from: number; words: string[]; after: string } {
  const { typed, desc, top } = placeAt(text, offset)
  const value = /^[\s-]*(\w+): *([\w-]*)$/.exec(typed)
  if (value) {
    const [, key = '', begun = ''] = value
    return { from: offset - begun.length, words: valuesOf(desc, key, top), after: '' }
  }
  const begun = /\w*$/.exec(typed)?.[0] ?? ''
  const heads = top && !desc ? ['apiVersion', 'kind', 'metadata'].filter((f) => f.startsWith(begun)) : []
  const words = /^[\s-]*\w*$/.test(typed) ? [...heads, ...fieldsAt(text, offset)] : []
  return { from: offset - begun.length, words, after: ': ' }
}

function valuesOf(desc: DescMessage | undefined, key: string, top: boolean): string[] {
  if (top && key === 'kind') return kinds.map((k) => k.name)
  if (top && key === 'apiVersion') return ['fairlead.dev/v1']
  const field = desc?.fields.find((f) => f.jsonName === key)
  if (field?.enum) return words(field)
  return field?.fieldKind === 'scalar' && field.scalar === ScalarType.BOOL ? ['true', 'false'] : []
}
