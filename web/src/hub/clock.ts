import { Code, ConnectError } from '@connectrpc/connect'

// Time, for what waits: tests have one of their own.
export type Clock = { now: () => number; wait: (ms: number, signal: AbortSignal) => Promise<void> }

export const clock: Clock = { now: Date.now, wait: sleep }

// How far the hub's clock is ahead of the browser's. What is less than an answer takes says nothing.
const leastOff = 5_000
let ahead = 0

// Takes in a time that the hub said, if it is one.
export function hearClock(said: string | null, now = Date.now()) {
  const off = Date.parse(said ?? '') - now
  if (!Number.isNaN(off)) ahead = Math.abs(off) < leastOff ? 0 : off
}

// Times of the hub and of clusters are as old as the hub's clock says: a browser's may be an hour off.
export const hubNow = (now = Date.now()) => now + ahead

// Ends early, and without an error, when nobody waits any more.
function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((done) => {
    const end = () => {
      clearTimeout(timer)
      signal.removeEventListener('abort', end)
      done()
    }
    const timer = setTimeout(end, ms)
    signal.addEventListener('abort', end)
    if (signal.aborted) end()
  })
}

// Asks a cluster, and no longer than so many milliseconds: behind a network that is cut no answer comes, and no error.
export async function within<T>(
  most: number,
  signal: AbortSignal | undefined,
  act: (signal: AbortSignal) => Promise<T>,
  words = `No answer of the cluster came within ${most / 1000} s.`,
): Promise<T> {
  const ends = new AbortController()
  const stop = () => ends.abort(signal?.reason)
  signal?.addEventListener('abort', stop)
  const timer = setTimeout(() => ends.abort(new ConnectError(words, Code.DeadlineExceeded)), most)
  try {
    signal?.throwIfAborted()
    return await act(ends.signal)
  } finally {
    clearTimeout(timer)
    signal?.removeEventListener('abort', stop)
  }
}
