import { ConnectError } from '@connectrpc/connect'
import { nextSession } from '../hub/session'
import { type Ask, linesOf, Refused } from './request'

// A container whose log is read. uid: of its pod, whose name another pod may get, as those of a StatefulSet do.
export type Container = { namespace: string; pod: string; container: string; uid?: string | undefined }

export type LogLine = { time: string; from: string; text: string; note: boolean }

export type Options = { since: number; previous: boolean } // since: seconds; 0: from the beginning

// A tab keeps so many lines, and so many characters of them.
const mostLines = 200_000
const mostCharacters = 64 << 20
// A longer line is cut.
const mostLine = 64 << 10
// Lines of several containers wait so long for earlier ones of the others.
export const mergeDelay = 500
// Containers that are followed at once: each is a stream.
export const mostContainers = 64

// The log of containers, merged by time. A stream that is cut is taken up where it ended, without a line twice.
// Containers come and go while it is read, as in a rollout: what was read of them stays.
export class Logs {
  lines: LogLine[] = []
  found = this.lines // those that fit what is looked for
  several = false // whether it is of more than one container
  dropped = 0 // lines that made room for later ones
  running = 0
  version = 0
  private characters = 0
  private waiting: LogLine[] = []
  private fits: ((line: LogLine) => boolean) | undefined
  private readonly reading = new Map<string, AbortController>()
  private readonly listeners = new Set<() => void>()
  private timer: ReturnType<typeof setTimeout> | undefined

  constructor(
    private readonly ask: Ask,
    private readonly options: Options,
    private readonly pause = (tries: number) =>
      Math.min(10_000, 500 * 2 ** tries) * (0.5 + Math.random() / 2),
    private readonly loggedIn = nextSession,
  ) {}

  // Reads these containers, and no others any more.
  follow(containers: Container[]) {
    const wanted = new Map(containers.slice(0, mostContainers).map((c) => [nameOf(c), c]))
    for (const [name, ends] of this.reading)
      if (!wanted.has(name)) {
        ends.abort()
        this.reading.delete(name)
      }
    for (const [name, c] of wanted) {
      if (this.reading.has(name)) continue
      const ends = new AbortController()
      this.several ||= this.reading.size > 0 || this.lines.length > 0
      this.reading.set(name, ends)
      void this.read(c, ends.signal)
    }
  }

  // Keeps what fits in found, each line as it comes: all of them are looked through once.
  find(fits: ((line: LogLine) => boolean) | undefined) {
    this.fits = fits
    this.found = fits ? this.lines.filter(fits) : this.lines
    this.draw()
  }

  end() {
    this.follow([])
    clearTimeout(this.timer)
    this.timer = undefined
  }

  subscribe = (listener: () => void) => {
    this.listeners.add(listener)
    return () => void this.listeners.delete(listener)
  }

  snapshot = () => this.version

  private async read(of: Container, signal: AbortSignal) {
    const from = `${of.pod}/${of.container}`
    let last = '' // time of the last line
    let atLast = 0 // lines that had this time
    let said = false // that it was resumed, with nothing new since
    let failed = false
    this.running++
    for (let tries = 0; !signal.aborted; tries++) {
      try {
        if (failed && of.uid && (await this.endOf(of, signal)) === 'replaced') {
          this.note(from, 'the container has ended')
          break
        }
        failed = false
        const query = new URLSearchParams({ container: of.container, timestamps: 'true' })
        if (this.options.previous) query.set('previous', 'true')
        else query.set('follow', 'true')
        if (last) query.set('sinceTime', last)
        else if (this.options.since > 0) query.set('sinceSeconds', String(this.options.since))
        else query.set('tailLines', '5000')
        const path = `/api/v1/namespaces/${encodeURIComponent(of.namespace)}/pods/${encodeURIComponent(of.pod)}/log`
        const answer = await this.ask(`${path}?${query}`, { signal, headers: { Accept: 'text/plain, */*' } })
        if (last && tries > 0 && !said) {
          said = true
          this.note(from, 'cut, resumed where it ended')
        }
        let repeated = atLast
        const resumedAt = last
        if (answer.body)
          for await (const raw of linesOf(answer.body, mostLine)) {
            const line = parsed(raw, from)
            // sinceTime is in whole seconds: what was shown comes again.
            if (resumedAt && line.time !== '' && line.time < resumedAt) continue
            if (resumedAt && line.time === resumedAt && repeated-- > 0) continue
            if (line.time !== '') {
              atLast = line.time === last ? atLast + 1 : 1
              last = line.time
            }
            tries = 0
            said = false
            this.add(line)
          }
        if (this.options.previous || (await this.endOf(of, signal))) {
          this.note(from, 'the container has ended')
          break
        }
      } catch (e) {
        if (signal.aborted) break
        failed = true
        const refused = e instanceof Refused && e.status < 500 && !isEarly(e)
        // A session that is over may be renewed: the page asks for a login, and stays as it is.
        const out = refused && e.status === 401
        if (tries === 0 || (refused && !out)) this.note(from, ConnectError.from(e).rawMessage)
        if (out) {
          await this.loggedIn(signal)
          continue
        }
        if (refused) break
      }
      await new Promise((done) => setTimeout(done, this.pause(tries)))
    }
    this.running--
    this.draw()
  }

  // Tells a container that ended for good, or whose pod another one has replaced, from a stream that was cut.
  private async endOf(of: Container, signal: AbortSignal): Promise<'' | 'over' | 'replaced'> {
    try {
      const answer = await this.ask(
        `/api/v1/namespaces/${encodeURIComponent(of.namespace)}/pods/${encodeURIComponent(of.pod)}`,
        { signal },
      )
      const { metadata, status } = (await answer.json()) as {
        metadata?: { uid?: string }
        status?: { phase?: string; containerStatuses?: { name: string; state?: { terminated?: unknown } }[] }
      }
      if (of.uid && metadata?.uid && metadata.uid !== of.uid) return 'replaced'
      return status?.phase === 'Succeeded' || status?.phase === 'Failed' ? 'over' : ''
    } catch (e) {
      return ConnectError.from(e).rawMessage.includes('not found') ? 'over' : ''
    }
  }

  private note(from: string, text: string) {
    this.add({ time: '', from, text, note: true })
  }

  private add(line: LogLine) {
    this.waiting.push(line)
    this.timer ??= setTimeout(() => this.flush(), this.several ? mergeDelay : 100)
  }

  // Moves what has waited to its place by time.
  private flush() {
    this.timer = undefined
    const moved = merge(this.lines, this.waiting)
    const changed = moved.length + this.waiting.length
    for (const l of this.waiting) this.characters += l.text.length
    this.waiting = []
    if (this.fits) {
      this.found.length -= moved.filter(this.fits).length
      for (const l of this.lines.slice(this.lines.length - changed)) if (this.fits(l)) this.found.push(l)
    }
    let drop = Math.max(0, this.lines.length - mostLines)
    let freed = 0
    for (let i = 0; i < drop; i++) freed += this.lines[i]?.text.length ?? 0
    while (this.characters - freed > mostCharacters && drop < this.lines.length)
      freed += this.lines[drop++]?.text.length ?? 0
    this.characters -= freed
    const gone = this.lines.splice(0, drop)
    if (this.fits) this.found.splice(0, gone.filter(this.fits).length)
    this.dropped += drop
    this.draw()
  }

  private draw() {
    this.version++
    for (const l of this.listeners) l()
  }
}

const nameOf = (of: Container) => `${of.namespace}/${of.pod}/${of.container}/${of.uid ?? ''}`

// A container that is not started yet is refused with 400, and a request too many with 429: both have a log later.
const isEarly = (e: Refused) =>
  e.status === 429 || (e.status === 400 && e.rawMessage.includes('is waiting to start'))

// Lines begin with a time of RFC 3339, whose fractions have as many digits as they need.
export function parsed(raw: string, from: string): LogLine {
  const space = raw.indexOf(' ')
  const time = space > 0 ? raw.slice(0, space) : raw
  const match = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?Z$/.exec(time)
  if (!match) return { time: '', from, text: withoutColours(raw), note: false }
  return {
    time: `${match[1]}.${(match[2] ?? '').padEnd(9, '0')}Z`,
    from,
    text: space > 0 ? withoutColours(raw.slice(space + 1)) : '',
    note: false,
  }
}

// Colours (SGR) are left out. Other escape sequences stay, and are shown as codes.
export const withoutColours = (text: string) =>
  // biome-ignore lint/suspicious/noControlCharactersInRegex: it is what colours begin with
  text.includes('\u001b') ? text.replace(/\u001b\[[0-9;:]*m/g, '') : text

// Puts lines in among sorted ones, and returns those that may have made room. Most belong at the end; one without a time stays behind what it came after.
export function merge(into: LogLine[], lines: LogLine[]): LogLine[] {
  const sorted = lines.map((line, i) => ({ line, i, time: line.time }))
  for (let i = 1, last = new Map<string, string>(); i <= sorted.length; i++) {
    const one = sorted[i - 1]
    if (!one) continue
    if (one.time === '') one.time = last.get(one.line.from) ?? sorted[i]?.time ?? ''
    last.set(one.line.from, one.time)
  }
  sorted.sort((a, b) => (a.time < b.time ? -1 : a.time > b.time ? 1 : a.i - b.i))
  const first = sorted[0]?.time ?? ''
  let cut = into.length
  while (cut > 0 && first !== '' && (into[cut - 1]?.time ?? '') > first) cut--
  const late = into.splice(cut)
  let k = 0
  for (const s of sorted) {
    while (k < late.length && (late[k]?.time ?? '') <= s.time) into.push(late[k++] as LogLine)
    into.push(s.line)
  }
  for (; k < late.length; k++) into.push(late[k] as LogLine)
  return late
}
