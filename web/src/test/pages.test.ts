import { Code, ConnectError } from '@connectrpc/connect'
import { expect, test } from 'vitest'
import { castOf, playTimes } from '../cluster/cast'
import { failureAt } from '../hub/errors'
import { textOf } from '../pages/source/content'
import { bytesOf } from '../ui/text'

const cast = (...lines: unknown[]) => lines.map((l) => `${JSON.stringify(l)}\n`).join('')

test('a recording is read as far as it is whole', () => {
  const text = cast(
    { version: 2, width: 100, height: 30 },
    [0.5, 'o', 'a'],
    [0.7, 'i', 'typed'],
    [1, 'r', '120x40'],
    [2, 'm', 'a mark'],
    [2.5, 'o', '\u001b[31mred'],
  )
  expect(castOf(`${text}[3, "o", "cut in the mid`)).toEqual({
    cols: 100,
    rows: 30,
    events: [
      { at: 500, text: 'a' },
      { at: 1000, cols: 120, rows: 40 },
      { at: 2500, text: '\u001b[31mred' },
    ],
  })
})

test('sizes that no terminal has are not taken', () => {
  const { cols, rows, events } = castOf(cast({ version: 2, width: 1e9, height: -1 }, [0, 'r', '0x99999999']))
  expect([cols, rows]).toEqual([500, 24])
  expect(events).toEqual([{ at: 0, cols: 80, rows: 500 }])
})

test('what is no recording says so', () => {
  expect(() => castOf('<html>')).toThrow('no header')
  expect(() => castOf(cast({ version: 1, stdout: [] }))).toThrow('no header')
})

test('long pauses are played short, and time never runs back', () => {
  const events = [0, 500, 60_500, 60_000, 61_000].map((at) => ({ at, text: 'x' }))
  expect(playTimes({ cols: 80, rows: 24, events }, 2000)).toEqual([0, 500, 2500, 2500, 3000])
  expect(playTimes({ cols: 80, rows: 24, events }, Number.POSITIVE_INFINITY)).toEqual([
    0, 500, 60_500, 60_500, 61_000,
  ])
})

test('a proxy without a route to a service is told from a service that refuses', () => {
  const missing = failureAt('gitcache', new ConnectError('HTTP 404', Code.Unimplemented))
  expect(missing.message).toContain('no route for /fairlead.gitcache.')
  const refused = failureAt('gitcache', new ConnectError('there is no source "shop"', Code.NotFound))
  expect(refused.message).toBe('there is no source "shop"')
})

test('a file that is no text is not drawn as one', () => {
  expect(textOf(new TextEncoder().encode('ключ: "ä"\n'))).toBe('ключ: "ä"\n')
  expect(textOf(new Uint8Array([0x50, 0x4b, 0, 4]))).toBeUndefined()
  expect(textOf(new Uint8Array([0xff, 0xfe, 0x41]))).toBeUndefined()
})

test('sizes are said in the unit that fits', () => {
  expect([0, 1023, 1024, 150 << 10, 5 << 20].map(bytesOf)).toEqual([
    '0 B',
    '1023 B',
    '1.0 KiB',
    '150 KiB',
    '5.0 MiB',
  ])
})
