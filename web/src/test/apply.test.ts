import { create } from '@bufbuild/protobuf'
import { Text } from '@codemirror/state'
import { describe, expect, test } from 'vitest'
import { foundAt } from '../app/found'
import { ranked } from '../app/ranked'
import { Kind } from '../gen/fairlead/console/v1/catalog_service_pb'
import { SearchResultSchema } from '../gen/fairlead/console/v1/live_service_pb'
import { SyncMode } from '../gen/fairlead/delivery/v1/options_pb'
import { marks } from '../heavy/diff'
import { completeAt, fieldsAt, pathOf, read } from '../pages/apply/documents'
import { Drafts } from '../ui/draft'

const service = (spec: string) =>
  `apiVersion: fairlead.dev/v1\nkind: Service\nmetadata:\n  name: web\nspec:\n${spec}`
const problems = (text: string) => read(text, '').problems

describe('YAML that a person types', () => {
  test('becomes what the hub is sent', () => {
    const { resources, problems } = read(
      service('  source: shop\n  cluster: edge-1\n  sync:\n    mode: dry-run\n    reason: "no"\n') +
        '---\napiVersion: fairlead.dev/v1\nkind: Source\nmetadata: {name: shop, uid: x}\nspec:\n  git: {url: https://git.example.com/shop, interval: 1m30s}\n',
      'e1',
    )
    expect(problems).toEqual([])
    expect(resources[0]?.resource).toMatchObject({
      case: 'service',
      value: {
        metadata: { name: 'web', etag: 'e1' },
        spec: { source: 'shop', sync: { mode: SyncMode.DRY_RUN } },
      },
    })
    expect(resources[1]?.resource).toMatchObject({
      case: 'source',
      value: { metadata: { uid: '' }, spec: { git: { interval: { seconds: 90n } } } },
    })
  })
  test.each([
    ['a field that is none', service('  source: shop\n  clutser: edge-1\n'), 7, /clutser is no field here/],
    ['a field that is none, deeper', service('  sync:\n    mde: hold\n'), 7, /mde is no field/],
    [
      'a word that is none',
      service('  sync:\n    mode: halt\n'),
      7,
      /halt: there are auto, dry-run, hold, suspend/,
    ],
    ['a number for a text', service('  source: shop\n  ref: 1.10\n'), 7, /ref/],
    ['no YAML', 'kind: [\n', 2, /./],
    [
      'a kind that is none',
      'apiVersion: fairlead.dev/v1\nkind: Deployment\n',
      2,
      /kind must be one of Service/,
    ],
    ['another version', 'apiVersion: v1\nkind: Service\n', 1, /fairlead.dev\/v1/],
    ['the same key twice', service('  source: a\n  source: b\n'), 7, /unique/],
    ['a list', '- a\n', 1, /must be a resource/],
    ['nothing', '\n', 0, /no resource/],
  ])('with %s is told at its line', (_, text, line, words) => {
    const [first] = problems(text)
    expect(first?.message).toMatch(words)
    expect(first?.line).toBe(line)
  })
  test('has the hub’s own errors at the line of the field', () => {
    const { lineOf } = read(service('  source: shop\n  sync:\n    dependsOn:\n      - a\n      - b\n'), '')
    expect(lineOf(0, 'spec.source')).toBe(6)
    expect(lineOf(0, 'spec.sync.depends_on[1]')).toBe(10)
    expect(lineOf(0, 'spec.ref')).toBe(5) // it is not there: what it belongs to
    expect(lineOf(7, 'spec')).toBe(0)
  })
  test('of five megabytes, or with a bomb of aliases, holds nothing up', () => {
    expect(problems('# x\n'.repeat(1_250_000))).toMatchObject([{ line: 0 }])
    const bomb = `a: &a [${'x,'.repeat(20)}]\n${'bcdefghij'
      .split('')
      .map((c, i) => `${c}: &${c} [${`*${'abcdefghij'[i]},`.repeat(20)}]`)
      .join('\n')}`
    expect(problems(bomb)[0]?.message).toMatch(/alias/)
  })
})

test('a path of the hub leads through names, indexes and quoted keys', () =>
  expect(pathOf('spec.sync.depends_on[1]["a.b"]')).toEqual(['spec', 'sync', 'dependsOn', 1, 'a.b']))

describe('the editor says which fields there are', () => {
  test.each([
    [service('  so'), ['source', 'sources']],
    [service('  sync:\n    mo'), ['mode']],
    ['apiVersion: fairlead.dev/v1\nkind: Source\nspec:\n  git:\n    u', ['url']],
    [service('  source: shop\n  ref: ma'), []],
  ])('%j', (text, want) => expect(fieldsAt(text, text.length)).toEqual(want))
})

test('an editor completes fields, kinds and the words of a field', () => {
  const at = (text: string) => {
    const { from, words, after } = completeAt(text, text.length)
    return [text.slice(from), words.slice(0, 4), after]
  }
  expect(at('ki')).toEqual(['ki', ['kind'], ': '])
  expect(at('kind: Ser')[1]).toContain('Service')
  expect(at('apiVersion: ')).toEqual(['', ['fairlead.dev/v1'], ''])
  expect(at(service('  sync:\n    mode: d'))).toEqual(['d', ['auto', 'dry-run', 'hold', 'suspend'], ''])
  expect(at(service('  clu'))).toEqual(['clu', ['cluster'], ': '])
  expect(at(service('  source: sh'))).toEqual(['sh', [], ''])
  expect(at('a sentence, which')[1]).toEqual([])
})

test('what is called so comes first', () => {
  const list = ['a-web', 'xweby', 'web-2', 'web', 'api'].map((name) => ({ name, to: name, what: '' }))
  expect(ranked('web', list).map((f) => f.name)).toEqual(['web', 'web-2', 'a-web', 'xweby'])
})

test('what the hub found by more than its name comes behind the names, with its state and place', () => {
  const hit = (kind: Kind, name: string, more: object = {}) =>
    foundAt(create(SearchResultSchema, { kind, name, field: 'name', ...more }), true)
  const list = [
    ...hit(Kind.SERVICE, 'db', { field: 'labels.team', state: 'failed', cluster: 'edge-1' }),
    ...hit(Kind.GLOBAL_SERVICE, 'web'),
    ...hit(99 as Kind, 'web-of-a-newer-hub'),
    { name: 'Cobweb', to: '/c', what: 'page' },
    { name: 'Other', to: '/o', what: 'page' },
  ]
  expect(ranked('web', list).map((f) => [f.name, f.to, f.what])).toEqual([
    ['web', '/globalservice/web', 'global service'],
    ['db', '/service/db', 'service on edge-1, failed, by labels.team'],
    ['Cobweb', '/c', 'page'],
  ])
  const [before] = foundAt(create(SearchResultSchema, { kind: Kind.CLUSTER, name: 'edge-1' }), false)
  expect(before && ranked('web', [before])).toEqual([])
})

test('lines of a difference are marked by their signs, and the names of files are not', () => {
  const lines = ['--- web', '+++ web', '@@ -1,2 +1,2 @@', ' a: 1', '-b: 2', '+b: 3', '----']
  const at: number[] = []
  const doc = Text.of(lines)
  marks(doc).between(0, doc.length, (from) => void at.push(doc.lineAt(from).number))
  expect(at).toEqual([3, 5, 6, 7])
})

test('a draft is of the version that it began with, until it is written', () => {
  const drafts = new Drafts()
  expect(drafts.get('Service web', 'now', 'e1')).toEqual({ text: 'now', of: 'e1' })
  drafts.set('Service web', 'typed', 'e1')
  drafts.set('Service web', 'typed more', 'e2')
  expect(drafts.get('Service web', 'of others', 'e2')).toEqual({ text: 'typed more', of: 'e1' })
  expect(drafts.written('Service web', 'typed more', 'e3')).toBe(true)
  expect(drafts.get('Service web', 'of others', 'e3')).toEqual({ text: 'of others', of: 'e3' })
  expect(drafts.written('Service web', 'of others', 'e4')).toBe(true) // without a draft
})

test('what is typed while a draft is being written stays, and is of what was written', () => {
  const drafts = new Drafts()
  drafts.set('Service web', 'sent', 'e1')
  drafts.set('Service web', 'sent, and more', 'e1')
  expect(drafts.written('Service web', 'sent', 'e2')).toBe(false)
  expect(drafts.get('Service web', 'now', 'e2')).toEqual({ text: 'sent, and more', of: 'e2' })
  expect(drafts.written('Service web', 'sent, and more', 'e3')).toBe(true)
})
