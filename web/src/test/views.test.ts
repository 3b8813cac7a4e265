import { expect, test } from 'vitest'
import { cores, explored, figureColumns, memory, podStates, share } from '../state/views'

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
