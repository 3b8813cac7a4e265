import { useEffect, useRef, useState } from 'react'
import { hubNow } from '../hub/clock'
import { type Failure, failureOf } from '../hub/errors'

// Pages ask again this often while they are seen.
export const every = 5_000
// An answer that is older is shown as stale.
export const staleAfter = 25_000

export type Freshness = { asOf: number; stale: boolean; failure?: Failure }

export type Answered = {
  dataUpdatedAt: number
  error: unknown
  isPlaceholderData?: boolean
}

// Whether something that the hub itself is asked for is not answered. What a cluster or a right refuses is an answer.
export const hubFails = (of: { queryKey: readonly unknown[]; state: { status: string; error: unknown } }[]) =>
  of.some(
    (q) =>
      q.state.status === 'error' &&
      (q.queryKey[0] === 'connect-query' || q.queryKey[0] === 'session') &&
      failureOf(q.state.error).away,
  )

// What a page shows is as old as its oldest answer.
export function freshness(answers: Answered[], now: number): Freshness {
  const asOf = Math.min(...answers.map((a) => a.dataUpdatedAt))
  const failed = answers.map((a) => a.error).find((e) => e != null)
  // Rows of another question stand in until those that were asked for come.
  const stale = answers.some((a) => a.isPlaceholderData) || (asOf > 0 && now - asOf > staleAfter)
  return failed == null ? { asOf, stale } : { asOf, stale, failure: failureOf(failed) }
}

// The same, for a page that is drawn again only when it becomes stale or fails.
export function useFreshness(answers: Answered[]): Freshness {
  const [, draw] = useState('')
  const of = useRef(answers)
  of.current = answers
  useTick(() => draw(phase(freshness(of.current, Date.now()))))
  return freshness(answers, Date.now())
}

const phase = (f: Freshness) => `${f.stale} ${f.failure?.message ?? ''}`

// One clock for the whole page; its ticks cost a render of the small parts that show ages.
const tickers = new Set<() => void>()
let timer: ReturnType<typeof setInterval> | undefined

export function useNow(): number {
  const [now, setNow] = useState(Date.now)
  useTick(() => setNow(Date.now()))
  return now
}

// The same, by the hub's clock.
export const useHubNow = () => hubNow(useNow())

function useTick(tick: () => void) {
  const latest = useRef(tick)
  latest.current = tick
  useEffect(() => {
    const mine = () => latest.current()
    tickers.add(mine)
    timer ??= setInterval(() => {
      for (const t of tickers) t()
    }, 1000)
    return () => {
      tickers.delete(mine)
      if (tickers.size === 0) {
        clearInterval(timer)
        timer = undefined
      }
    }
  }, [])
}
