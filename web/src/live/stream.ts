import type { Message } from '@bufbuild/protobuf'
import { Code } from '@connectrpc/connect'
import type { WatchQueriesRequest, WatchQueriesResponse } from '../gen/fairlead/console/v1/live_service_pb'
import { type Failure, failureOf } from '../hub/errors'
import type { Answer } from './answers'

// The console is silent for 10 s at most.
const silence = 25_000
// Queries of one stream; what a page asks beyond is polled.
const most = 16
// Changes of a page come together: they make one new stream.
const settle = 60
const shortest = 500
const longest = 10_000

export type Open = (
  request: Pick<WatchQueriesRequest, 'queries'>,
  signal: AbortSignal,
) => AsyncIterable<WatchQueriesResponse>

type Wanted = {
  make: () => Answer
  answer: Answer
  tell: (data: Message) => void
  users: number
  stands: boolean
}

// Status is what people see of the stream. asOf: everything that it carries is as of then.
export type Status = { live: boolean; asOf: number; nextTry: number; failure?: Failure }

// Stream is the one stream of a tab. It carries the answers that the page shows: a page that shows others opens the next stream with what is
// known, and closes the old one when the new one stands. A stream that breaks is tried again, later and later, at random times.
export class Stream {
  #open: Open
  #wanted = new Map<string, Wanted>()
  #current: AbortController | undefined
  // Streams that the current one is to replace.
  #before: AbortController[] = []
  #timer: ReturnType<typeof setTimeout> | undefined
  #watchdog: ReturnType<typeof setTimeout> | undefined
  #failures = 0
  #paused = false
  // The console refused a stream with queries that it does not know: those are polled, until a stream that stood breaks. The next console may be another one.
  #older = false
  #listeners = new Set<() => void>()
  status: Status = { live: false, asOf: 0, nextTry: 0 }

  constructor(open: Open) {
    this.#open = open
  }

  subscribe = (listener: () => void) => {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  // Whether the stream carries the answer with this key.
  carries = (key: string) => this.status.live && (this.#wanted.get(key)?.stands ?? false)

  want(key: string, make: () => Answer, tell: (data: Message) => void): () => void {
    const known = this.#wanted.get(key)
    if (known) {
      known.users++
      known.tell = tell
    } else {
      this.#wanted.set(key, { make, answer: make(), tell, users: 1, stands: false })
      this.#later(settle)
    }
    return () => {
      const wanted = this.#wanted.get(key)
      if (!wanted || --wanted.users > 0) return
      // A page that renders anew asks for the same a moment later.
      setTimeout(() => {
        if (wanted.users > 0 || this.#wanted.get(key) !== wanted) return
        this.#wanted.delete(key)
        this.#later(settle)
      }, settle)
    }
  }

  // A tab that nobody sees holds no stream.
  pause(paused: boolean) {
    if (paused === this.#paused) return
    this.#paused = paused
    if (paused) this.#drop()
    else this.#later(0)
  }

  // The next stream is of other rights: it begins with nothing of what this one told.
  forget() {
    this.#drop()
    for (const wanted of this.#wanted.values()) wanted.answer = wanted.make()
    this.retry()
  }

  // Tries again now.
  retry() {
    if (!this.#paused) this.#later(0)
  }

  #set(status: Partial<Status>) {
    this.status = { ...this.status, ...status }
    for (const listener of this.#listeners) listener()
  }

  #later(ms: number) {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => void this.#run(), ms)
  }

  #drop() {
    clearTimeout(this.#timer)
    clearTimeout(this.#watchdog)
    this.#current?.abort()
    this.#current = undefined
    this.#replaced()
    for (const wanted of this.#wanted.values()) wanted.stands = false
    this.#set({ live: false, nextTry: 0 })
  }

  #replaced() {
    for (const old of this.#before) old.abort()
    this.#before = []
  }

  async #run() {
    if (this.#paused) return
    const wanted = [...this.#wanted].filter(([, { answer }]) => !(this.#older && answer.newer)).slice(0, most)
    if (wanted.length === 0) {
      this.#drop()
      return
    }
    if (this.#current) this.#before.push(this.#current)
    const mine = new AbortController()
    this.#current = mine
    const watch = () => {
      clearTimeout(this.#watchdog)
      this.#watchdog = setTimeout(() => mine.abort(), silence)
    }
    watch()
    let stood = false
    try {
      const queries = wanted.map(([key, { answer }]) => answer.query(key))
      for await (const m of this.#open({ queries }, mine.signal)) {
        if (this.#current !== mine) return
        watch()
        this.#take(m)
        if (m.event.case !== 'heartbeat') continue
        this.#replaced()
        stood = true
        this.#failures = 0
        this.#set({ live: true, asOf: Date.now(), nextTry: 0 })
      }
      throw new TypeError('Failed to fetch') // a stream has no end
    } catch (e) {
      if (this.#current !== mine) return
      this.#drop()
      if (stood) this.#older = false
      const failure = failureOf(e)
      if (failure.code === Code[Code.InvalidArgument] && wanted.some(([, { answer }]) => answer.newer)) {
        this.#older = true
        this.#later(0)
        return
      }
      const wait = Math.max(shortest, Math.random() * Math.min(longest, shortest * 2 ** ++this.#failures))
      this.#later(wait)
      this.#set({ nextTry: Date.now() + wait, failure })
    }
  }

  #take(m: WatchQueriesResponse) {
    const wanted = this.#wanted.get(m.name)
    if (!wanted) return
    wanted.stands = m.event.case !== 'problem'
    const data = wanted.answer.take(m)
    if (data) wanted.tell(data)
    else if (m.event.case === 'list') wanted.stands = false // There is no such thing: the method words it.
    if (wanted.answer.full?.()) this.#later(settle)
  }
}
