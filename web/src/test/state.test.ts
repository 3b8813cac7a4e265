import { describe, expect, test } from 'vitest'
import type { ServiceState } from '../gen/fairlead/console/v1/resources_pb'
import { age, moment } from '../live/ages'
import { freshness } from '../live/asked'
import { cellsOf, groups, sums } from '../pages/fleet/cells'
import { took } from '../pages/service/History'
import { needsWords, stateOf, worst } from '../state/states'

test('a state that this page does not know is unknown, never well', () =>
  expect(stateOf(99 as ServiceState)).toBe('unknown'))
test('the worst state counts', () => {
  expect(worst(['healthy', 'degraded', 'held'])).toBe('degraded')
  expect(worst([])).toBeUndefined()
})
test('from waiting up a state comes with words', () => {
  expect(needsWords('waiting')).toBe(true)
  expect(needsWords('held')).toBe(false)
})

describe('the fleet', () => {
  const services = [
    { values: ['edge-1', 'healthy'], count: 3 },
    { values: ['edge-1', 'failed'], count: 1 },
    { values: ['edge-2', 'healthy'], count: 2 },
    { values: ['edge-3', 'healthy'], count: 9 },
  ]
  const clusters = [
    { values: ['edge-1', 'true', 'eu'], count: 1 },
    { values: ['edge-2', 'true', 'us'], count: 1 },
    { values: ['edge-3', 'false', 'us'], count: 1 },
    { values: ['edge-4', 'true', ''], count: 1 },
  ]
  const cells = cellsOf(clusters, services)
  test('counts services by state', () =>
    expect([...sums(services)]).toEqual([
      ['healthy', 14],
      ['failed', 1],
    ]))
  test('shows the worst cluster first, each as its worst service', () =>
    expect(cells.map((c) => `${c.name} ${c.state}: ${c.words}`)).toEqual([
      'edge-1 failed: 1 failed, 3 healthy',
      'edge-3 unknown: not connected',
      'edge-2 healthy: 2 healthy',
      'edge-4 healthy: no services',
    ]))
  test('shows the group of the worst cluster first', () =>
    expect(groups(cells).map(([name]) => name)).toEqual(['eu', 'us', '']))
})

describe('times', () => {
  test.each([
    [-5, '0s'],
    [59_999, '59s'],
    [61_000, '1m1s'],
    [600_000, '10m'],
    [3_660_000, '1h1m'],
    [36_000_000, '10h'],
    [3 * 86_400_000, '3d'],
  ])('%d ms ago is %s', (ms, want) => expect(age(ms)).toBe(want))
  test.each([
    [400, '0.4s'],
    [-1, '0s'],
    [65_000, '65s'],
    [900_000, '15m'],
  ])('%d ms took %s', (ms, want) => expect(took(ms)).toBe(want))
})

describe('an answer that is old never looks new', () => {
  const answer = { dataUpdatedAt: 1_000, error: null }
  test('fresh', () => expect(freshness([answer], 20_000)).toEqual({ asOf: 1_000, stale: false }))
  test('stale after 25 s', () => expect(freshness([answer], 27_000).stale).toBe(true))
  test('as old as the oldest', () =>
    expect(freshness([answer, { ...answer, dataUpdatedAt: 500 }], 2_000).asOf).toBe(500))
  test('stale while rows of another filter stand in', () =>
    expect(freshness([{ ...answer, isPlaceholderData: true }], 2_000).stale).toBe(true))
  test('failed', () =>
    expect(freshness([{ ...answer, error: new Error('no') }], 2_000).failure?.message).toBe('no'))
})

test('a time of a log is in the zone of the person', () => {
  const local = new Date(2026, 10, 24, 14, 2, 11, 123)
  expect(moment(local.toISOString())).toBe('2026-11-24 14:02:11.123')
  expect(moment('2026-11-24T13:02:11.123456789Z')).toMatch(/^2026-11-2\d \d\d:\d\d:11\.123$/)
  expect(moment('no time')).toBe('no time')
})
