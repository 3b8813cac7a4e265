import { type Clock, clock, hearClock, hubNow, within } from './clock'

// A session is a cookie that no script can read; the hub tells whose it is and how long it lasts.
export type Session = { user: string; groups: string[]; expireTime: string; endTime: string }

const path = '/v1/session'
const marked = { 'Fairlead-Csrf': '1' }

export class SignedOut extends Error {}

// Behind a network that is cut no answer comes, and no error: the page says so, and asks again.
const mostWait = 20_000

const ask = (init: RequestInit = {}) =>
  within(
    mostWait,
    undefined,
    (signal) => fetch(path, { ...init, signal }),
    `No answer of the hub came within ${mostWait / 1000} s.`,
  )

async function sessionOf(answer: Response): Promise<Session> {
  if (answer.status === 401) throw new SignedOut()
  if (!answer.ok) throw new Error((await answer.text()).trim())
  hearClock(answer.headers.get('Date'))
  return answer.json()
}

const waiting = new Set<() => void>()

// A page looks after its session every 10 s while it is seen.
export async function getSession(): Promise<Session> {
  const session = await ask().then(sessionOf)
  for (const tell of waiting) tell()
  waiting.clear()
  return session
}

// Waits until the hub tells of a session again, or nobody waits any more.
export function nextSession(signal: AbortSignal): Promise<void> {
  return new Promise((done) => {
    waiting.add(done)
    signal.addEventListener('abort', () => {
      waiting.delete(done)
      done()
    })
  })
}

export const renewSession = () => ask({ method: 'POST', headers: marked }).then(sessionOf)

// everywhere: all logins of the person end, in other browsers and of the command, too.
export async function endSession(everywhere = false): Promise<void> {
  const answer = await fetch(everywhere ? `${path}?everywhere` : path, { method: 'DELETE', headers: marked })
  if (!answer.ok && answer.status !== 401) throw new Error((await answer.text()).trim())
}

// The code of a login link begins the session. People paste the whole link or the code.
export async function useLoginLink(typed: string): Promise<void> {
  const code = typed.trim().replace(/^.*#/, '')
  const answer = await fetch('/v1/login/once', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ code }),
  })
  if (!answer.ok) throw new Error((await answer.text()).trim())
}

// What is another one in a session of this browser: its person, or what the same person may do. Another tab may have logged in.
export function turnOf(before: Session | undefined, now: Session): 'person' | 'rights' | undefined {
  if (!before) return undefined
  if (before.user !== now.user) return 'person'
  return before.groups.join(' ') === now.groups.join(' ') ? undefined : 'rights'
}

// A session is renewed when half of what is left of it is over, and never more often than once a minute.
export function renewAfter(session: Session, now: number): number {
  return Math.max(60_000, (Date.parse(session.expireTime) - now) / 2)
}

// Renews a session in time as long as nobody stops it, and once more later where that fails, unless it is over. changed is called after each time.
export function keepRenewed(
  session: Session,
  changed: () => void,
  renew: () => Promise<unknown> = renewSession,
  at: Clock = clock,
): () => void {
  const ends = new AbortController()
  void (async () => {
    for (let over = false; !over; changed()) {
      await at.wait(renewAfter(session, hubNow(at.now())), ends.signal)
      if (ends.signal.aborted) return
      over = await renew().then(
        () => false,
        (e) => e instanceof SignedOut,
      )
    }
  })()
  return () => ends.abort()
}
