import { Code, ConnectError, createClient } from '@connectrpc/connect'
import { createConnectTransport } from '@connectrpc/connect-web'
import { describe, expect, test, vi } from 'vitest'
import { Refused } from '../cluster/request'
import { ServiceService } from '../gen/fairlead/console/v1/service_service_pb'
import { hearClock, hubNow } from '../hub/clock'
import { failureOf } from '../hub/errors'
import { quote, toFilter } from '../hub/filter'
import { getSession, keepRenewed, nextSession, renewAfter, SignedOut, turnOf } from '../hub/session'
import { hubFails } from '../live/asked'
import { eventFilter } from '../pages/activity/filter'

describe('what a person types becomes a filter of the hub', () => {
  test.each([
    ['', ''],
    ['  ', ''],
    ['web', 'name : web'],
    ['web api', 'name : web AND name : api'],
    ['état', 'name : "état"'],
    ['state >= degraded', 'state >= degraded'],
    ['NOT labels.env = prod', 'NOT labels.env = prod'],
    ['"two words"', '"two words"'],
  ])('%j', (typed, want) => expect(toFilter(typed)).toBe(want))
  test('a quote in a name stays in its quotes', () =>
    expect(quote('a" OR name : "b')).toBe('"a\\" OR name : \\"b"'))
  test('events are looked for by type', () => expect(eventFilter('drift')).toBe('type : drift'))
})

describe('an error tells the hub’s own sentence', () => {
  test('of a call', () => {
    const f = failureOf(new ConnectError('a grant is missing', Code.PermissionDenied))
    expect(f).toMatchObject({
      message: 'a grant is missing',
      code: 'PermissionDenied',
      signedOut: false,
      away: false,
    })
  })
  test('of a hub that is away', () =>
    expect(failureOf(new TypeError('Failed to fetch'))).toMatchObject({
      away: true,
      message: expect.stringContaining('does not answer'),
    }))
  test('of a hub that is away, of a call', async () => {
    const transport = createConnectTransport({
      baseUrl: 'https://hub.example',
      fetch: () => Promise.reject(new TypeError('Failed to fetch')),
    })
    const failed = await createClient(ServiceService, transport)
      .getService({ name: 'web' })
      .catch((e: unknown) => e)
    expect(failureOf(failed)).toMatchObject({ away: true, code: 'Unavailable' })
    expect(failureOf(failed).message).toContain('does not answer')
  })
  test('of what is in front of the hub, which has no sentence of its own', async () => {
    const asked = (answer: () => Promise<Response>) =>
      createClient(ServiceService, createConnectTransport({ baseUrl: 'https://hub.example', fetch: answer }))
        .getService({ name: 'web' })
        .catch((e: unknown) => failureOf(e))
    const html = (status: number) => async () =>
      new Response('<h1>no</h1>', { status, headers: { 'Content-Type': 'text/html' } })
    expect(await asked(html(502))).toMatchObject({
      away: true,
      message: 'A proxy answers in place of the hub: HTTP 502. The hub may be down or starting.',
    })
    expect(await asked(html(403))).toMatchObject({
      away: false,
      message:
        'A proxy answers in place of the hub: HTTP 403. It may need a login of its own, or a route to the hub.',
    })
    expect(await asked(html(200))).toMatchObject({
      message:
        'A proxy answers in place of the hub: text/html. It may need a login of its own, or a route to the hub.',
    })
    expect(failureOf(new ConnectError('the operation timed out', Code.DeadlineExceeded)).message).toBe(
      'The hub has not answered in time. It may be busy, or the network slow.',
    )
  })
  test('of a hub that is away, and of a cluster that is, or a right that is missing', () => {
    const query = (key: string, error: unknown) => ({ queryKey: [key], state: { status: 'error', error } })
    const cut = new TypeError('Failed to fetch')
    expect(hubFails([query('connect-query', cut)])).toBe(true)
    expect(hubFails([query('session', cut)])).toBe(true)
    expect(hubFails([query('connect-query', new ConnectError('no', Code.PermissionDenied))])).toBe(false)
    expect(hubFails([query('compare', new Refused('not connected', Code.Unavailable, 503))])).toBe(false)
    expect(hubFails([{ queryKey: ['connect-query'], state: { status: 'success', error: cut } }])).toBe(false)
  })
  test('of a session that is over', () =>
    expect(failureOf(new ConnectError('', Code.Unauthenticated)).signedOut).toBe(true))
})

test('a session is renewed in time, and not in a loop', () => {
  const session = { user: 'ada', groups: [], endTime: '', expireTime: '2026-11-21T12:00:00Z' }
  expect(renewAfter(session, Date.parse('2026-11-21T11:00:00Z'))).toBe(30 * 60_000)
  expect(renewAfter(session, Date.parse('2026-11-21T13:00:00Z'))).toBe(60_000)
})

test('a session whose renewal fails is renewed later, and one that is over no more', async () => {
  const session = { user: 'ada', groups: [], endTime: '', expireTime: '1970-01-01T01:00:00Z' }
  let now = 0
  const at = {
    now: () => now,
    wait: async (ms: number) => {
      now += ms
    },
  }
  const times: number[] = []
  const answers = [new TypeError('Failed to fetch'), undefined, new SignedOut()]
  const renew = async () => {
    times.push(now / 60_000)
    const answer = answers.shift()
    if (answer) throw answer
  }
  const changed = vi.fn()
  keepRenewed(session, changed, renew, at)
  await vi.waitFor(() => expect(changed).toHaveBeenCalledTimes(3), { timeout: 60_000 })
  expect(times).toEqual([30, 45, 52.5])
  expect(answers).toEqual([])
})

test('another person in the session of this browser is told apart from other rights of the same one', () => {
  const session = (user: string, ...groups: string[]) => ({ user, groups, expireTime: '', endTime: '' })
  expect(turnOf(undefined, session('ada', 'shop'))).toBeUndefined()
  expect(turnOf(session('ada', 'shop'), session('ada', 'shop'))).toBeUndefined()
  expect(turnOf(session('ada', 'shop'), session('ada', 'shop', 'admins'))).toBe('rights')
  expect(turnOf(session('ada', 'shop'), session('bob', 'shop'))).toBe('person')
})

test('what waits for a session goes on when the hub tells of one, or when nobody waits any more', async () => {
  const answers = [401, 200].map((status) => Response.json({ user: 'ada' }, { status }))
  vi.stubGlobal('fetch', async () => answers.shift())
  const gone: string[] = []
  const leaves = new AbortController()
  void nextSession(new AbortController().signal).then(() => gone.push('in'))
  void nextSession(leaves.signal).then(() => gone.push('left'))
  await getSession().catch(() => undefined)
  expect(gone).toEqual([])
  leaves.abort()
  await getSession()
  expect(gone).toEqual(['left', 'in'])
  vi.unstubAllGlobals()
})

test('times of the hub are as old as its clock says, where that of the browser is off', () => {
  const now = Date.parse('2026-11-21T13:00:00Z')
  const hears = (said: string | null) => {
    hearClock(said, now)
    return (hubNow(now) - now) / 1000
  }
  expect(hears('Sat, 21 Nov 2026 12:00:00 GMT')).toBe(-3600)
  expect([hears(null), hears('soon')]).toEqual([-3600, -3600])
  expect(hears('Sat, 21 Nov 2026 12:59:58 GMT')).toBe(0)
})
