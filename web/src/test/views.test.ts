import { expect, test } from 'vitest'
import {
  cellWords,
  cores,
  credentialWords,
  deprecatedWords,
  explored,
  figureColumns,
  isSet,
  memory,
  podStates,
  said,
  setName,
  setWords,
  share,
  summed,
  usedWords,
} from '../state/views'

const shown = (f: Record<string, bigint>) => figureColumns.map((c) => `${c.show(f)}${c.bad(f) ? ' !' : ''}`)

test('an unknown figure is no 0', () => {
  expect(shown({})).toEqual(['–', '–', '–', '–', '–', '–', '–', '–'])
  expect(
    shown({
      'nodes.not_ready': 0n,
      'nodes.total': 3n,
      'nodes.cpu_allocatable': 48_000n,
      'pods.not_ready': 1204n,
      'workloads.not_well': 2n,
      'workloads.total': 60n,
      'restarts.hour': 7n,
      'restarts.at_least': 1n,
      'warnings.hour': 41n,
      'requests.cpu': 12_000n,
      'requests.memory': 1n,
    }),
  ).toEqual(['0 of 3', '1,204 !', '2 of 60 !', '–', '≥ 7', '41', '25 %', '–'])
})

test('what is requested is a share of what nodes can give', () => {
  const f = { a: 7_500n, b: 48_000n, m: 1024n ** 3n }
  expect(share(f, 'a', 'b', cores)).toBe('7.5 cores of 48 cores (16 %)')
  expect(share(f, 'a', 'none', cores)).toBe('7.5 cores')
  expect(share(f, 'none', 'b', cores)).toBe('–')
  expect(share(f, 'm', 'm', memory)).toBe('1.0 GiB of 1.0 GiB (100 %)')
})

test('a ViewSet says what it counts, and cells have their heads', () => {
  expect(
    said(setWords({ total: 3n, 'Ready.false': 1n, 'Ready.true': 2n, 'Ready.none': 0n, 'issuer.a.b': 3n })),
  ).toEqual(['3 in all', 'issuer a.b: 3', 'Ready false: 1', 'Ready true: 2'])
  expect(setWords({})).toEqual([])
  expect(cellWords(['expires', 'names'], ['2027', '', 'x'])).toEqual(['expires 2027', 'x'])
  expect([isSet('set-a'), isSet('services'), setName('set-a-b')]).toEqual([true, false, 'a-b'])
})

test('figures of a sample are marked as estimates', () => {
  expect(
    shown({
      'pods.not_ready': 8n,
      'pods.total': 1200n,
      'pods.sampled': 1n,
      'pulls.pods': 4n,
      'pulls.sampled': 1n,
      'restarts.hour': 2n,
      'restarts.at_least': 1n,
      'restarts.sampled': 1n,
      'nodes.cpu_allocatable': 4n,
      'requests.cpu': 1n,
      'requests.sampled': 1n,
      'warnings.hour': 3n,
      'workloads.sampled': 1n,
    }),
  ).toEqual(['–', '≈ 8 of 1,200 !', '–', '≈ 4 !', '≥ ≈ 2', '3', '≈ 25 %', '–'])
  expect(share({ 'a.x': 2n, 'b.x': 4n, 'b.sampled': 3n }, 'a.x', 'b.x', String)).toBe('≈ 2 of 4 (50 %)')
})

test('the share of a sum is that of the clusters that know both', () => {
  const sum = {
    'requests.cpu': 12_000n,
    'nodes.cpu_allocatable': 10_000n,
    'shares.cpu_requested': 4_000n,
    'shares.cpu_allocatable': 10_000n,
    'requests.memory': 5n,
    'nodes.memory_allocatable': 4n,
    'pods.not_ready': 1n,
  }
  expect(shown(summed(sum))).toEqual(['–', '1 !', '–', '–', '–', '–', '40 %', '–'])
})

test('an unknown figure is no word of a line, unless it is the first', () => {
  expect(
    said([['– in all'], ['– not well', undefined], ['0 failed', 0n], ['– ready', undefined, true]]),
  ).toEqual(['– in all'])
  expect(
    said([
      ['0 in all', 0n],
      ['2 not well', 2n],
      ['0 ready', 0n, true],
    ]),
  ).toEqual(['0 in all', '2 not well', '0 ready'])
})

test('what nodes use, deprecated APIs and credentials have a line each', () => {
  const f = {
    'used.cpu': 1000n,
    'used.nodes': 3n,
    'nodes.cpu_allocatable': 4000n,
    'deprecated.applied': 0n,
    'deprecated.total': 2n,
    'agent.credentials': 4n,
    'agent.end_soon': 1n,
    'agent.ended': 0n,
  }
  expect(said(usedWords(f))).toEqual(['CPU: 1.0 cores of 4.0 cores (25 %)', 'of 3 nodes'])
  expect(said(deprecatedWords(f))).toEqual(['0 used by Fairlead', '2 in all'])
  expect(said(credentialWords(f))).toEqual(['4 in all', '1 end soon'])
  expect(said(usedWords({}))).toEqual(['CPU: –'])
})

test('states of pods come the most frequent first', () => {
  expect(
    podStates({
      'pods.total': 9n,
      'pods.state.Error': 1n,
      'pods.state.Running': 7n,
      'pods.state.Completed': 1n,
    }),
  ).toEqual([
    ['Running', 7n],
    ['Completed', 1n],
    ['Error', 1n],
  ])
})

test('a row leads to its object, if it is one', () => {
  const row = { kind: 'Deployment', namespace: 'shop', name: 'a b' }
  expect(explored('edge-1', row)).toBe('/cluster/edge-1/explore?kind=Deployment.apps&obj=shop%2Fa+b')
  expect(explored('edge-1', { kind: 'Node', namespace: '', name: 'n' })).toBe(
    '/cluster/edge-1/explore?kind=Node.&obj=n',
  )
  expect(explored('edge-1', { kind: 'Image', namespace: '', name: 'web:v1' })).toBe('')
})
