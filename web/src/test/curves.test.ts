import { create } from '@bufbuild/protobuf'
import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import { expect, test } from 'vitest'
import { GetViewCurvesResponseSchema } from '../gen/fairlead/console/v1/cluster_view_service_pb'
import { drawn, stepsOf } from '../state/curves'

const minute = 60_000
const end = Date.UTC(2026, 2, 1, 12)

// An answer of five steps, with points by the number of their step: last and highest.
const answer = (figure: string, points: Record<number, [number, number]>, sampled = 0) =>
  create(GetViewCurvesResponseSchema, {
    step: { seconds: 300n },
    beginTime: timestampFromMs(end - 20 * minute),
    endTime: timestampFromMs(end),
    clusters: 1,
    curves: [
      {
        figure,
        sampled,
        points: Object.entries(points).map(([step, [last, highest]]) => ({
          time: timestampFromMs(end - (4 - Number(step)) * 5 * minute),
          last: BigInt(last),
          highest: BigInt(highest),
          clusters: 1,
        })),
      },
    ],
  })

const one = (...of: Parameters<typeof answer>) => {
  const [c] = drawn(answer(...of))
  if (!c) throw new Error('nothing is drawn')
  return c
}

test('a gap is a gap, and no line leads over it', () => {
  const c = one('pods.not_ready', { 0: [1, 1], 1: [0, 2], 4: [2, 2] })
  expect(c.line).toBe('M0 12H1V24H2M4 0H5')
  expect(c.ground).toBe('M0 24V12H1V0H2V24ZM4 24V0H5V24Z')
  expect(c.gaps).toBe(true)
  expect(stepsOf(answer('pods.not_ready', {}))).toBe(5)
})

test('the words say last, highest and when', () => {
  const c = one('pods.not_ready', { 1: [1204, 1204], 2: [7, 1204], 3: [2, 3] })
  expect([c.title, c.last, c.highest]).toEqual(['Pods not ready', '2', '1,204'])
  expect(c.lastTime).toEqual(timestampFromMs(end - 5 * minute))
  expect(c.highestTime).toEqual(timestampFromMs(end - 10 * minute))
  // The last step is that of now.
  const whole = one('warnings.hour', { 0: [0, 0], 1: [0, 0], 2: [0, 0], 3: [0, 0], 4: [0, 0] }, 1)
  expect([whole.last, whole.lastTime, whole.highest, whole.highestTime, whole.gaps]).toEqual([
    '≈ 0',
    undefined,
    '≈ 0',
    undefined,
    false,
  ])
  expect(whole.line).toBe('M0 24H1V24H2V24H3V24H4V24H5')
})

test('a share is drawn to all that there is, or more', () => {
  const half = one('shares.cpu', { 4: [250, 500] })
  expect([half.title, half.last, half.highest, half.line]).toEqual([
    'CPU requested',
    '25 %',
    '50 %',
    'M4 18H5',
  ])
  expect(one('shares.memory', { 4: [500, 2000] }).line).toBe('M4 18H5')
})

test('a curve without points is not drawn', () => {
  expect(drawn(answer('pods.not_ready', {}))).toEqual([])
  expect(one('later.figure', { 4: [1, 1] }).title).toBe('later.figure')
})
