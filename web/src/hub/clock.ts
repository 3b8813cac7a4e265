// Time, for what waits: tests have one of their own.
export type Clock = { now: () => number; wait: (ms: number, signal: AbortSignal) => Promise<void> }

export const clock: Clock = { now: Date.now, wait: sleep }

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
