import { create, toJsonString } from '@bufbuild/protobuf'
import { Code, ConnectError } from '@connectrpc/connect'
import { describe, expect, test, vi } from 'vitest'
import { compare, compareTo, type Folder, packed } from '../cluster/compare'
import { Refused } from '../cluster/request'
import { type Service, ServiceSchema } from '../gen/fairlead/console/v1/resources_pb'
import { DeploymentSchema, RevisionSchema } from '../gen/fairlead/console/v1/revision_service_pb'
import { TokenLimitsSchema } from '../gen/fairlead/console/v1/service_account_service_pb'
import { ServiceDetailSchema } from '../gen/fairlead/delivery/v1/detail_pb'
import { DeletePolicy, SyncMode } from '../gen/fairlead/delivery/v1/options_pb'
import { PackServiceResponseSchema } from '../gen/fairlead/gitcache/v1/source_pb'
import { commandOf, limitsSay } from '../pages/access/limits'
import { ensureCluster } from '../pages/join/ensure'
import { linesOf } from '../pages/service/lines'
import { detach, orphaned } from '../ui/detach'

const never = new AbortController().signal
// A clock that goes on while something waits.
const clock = () => {
  let time = 0
  const wait = async (ms: number) => {
    time += ms
  }
  return { now: () => time, wait }
}

describe('the difference of two texts', () => {
  test('is what diff -u writes', () => {
    const before = [...'abcdefghijklmnop'].join('\n')
    expect(linesOf(before, before)).toBe('')
    expect(linesOf(`${before}\n`, before)).toBe('')
    expect(linesOf(before, before.replace('e', 'E').replace('p', 'p\nq'))).toBe(
      [
        '@@ -2,7 +2,7 @@',
        ' b',
        ' c',
        ' d',
        '-e',
        '+E',
        ' f',
        ' g',
        ' h',
        '@@ -14,3 +14,4 @@',
        ' n',
        ' o',
        ' p',
        '+q',
      ].join('\n'),
    )
  })
  test('of long ones is not asked of each pair of lines', () => {
    const long = (of: string) => Array.from({ length: 3000 }, (_, i) => `${of}${i}`).join('\n')
    const lines = linesOf(long('a'), long('b')).split('\n')
    expect([lines[0], lines.length]).toEqual(['@@ -1,3000 +1,3000 @@', 6001])
  })
})

describe('a comparison with the cluster', () => {
  const detail = (digest: string) =>
    toJsonString(
      ServiceDetailSchema,
      create(ServiceDetailSchema, {
        service: 'web',
        digest,
        detail: { case: 'diff', value: { changed: 1 } },
      }),
    )
  const answers = (...of: (string | Refused)[]) => {
    const asked: [string, RequestInit | undefined][] = []
    const ask = async (path: string, init?: RequestInit) => {
      asked.push([path, init])
      const next = of.length > 1 ? of.shift() : of[0]
      if (next instanceof Refused) throw next
      return new Response(next)
    }
    return { ask, asked }
  }
  const busy = new Refused('the agent stands by', Code.Unavailable, 503)

  test('waits for an agent that has not heard of the newest content, or is busy', async () => {
    const { ask, asked } = answers(detail('old'), busy, detail('new'))
    const found = await compare(ask, 'web', { handedOut: () => 'new' }, never, clock())
    expect(found.digest).toBe('new')
    expect(asked.map(([path]) => path)).toEqual(Array(3).fill('/fairlead/v1/services/web/diff'))
    expect(asked[0]?.[1]?.method).toBeUndefined()
  })
  test('takes in the end what there is, and says why there is nothing', async () => {
    const old = compare(answers(detail('old')).ask, 'web', { handedOut: () => 'new' }, never, clock())
    expect((await old).digest).toBe('old')
    const refused = answers(new Refused('you may not read', Code.PermissionDenied, 403))
    await expect(compare(refused.ask, 'web', {}, never, clock())).rejects.toThrow('you may not read')
    expect(refused.asked.length).toBe(1)
  })
  test('asks again for 15 s, however long an answer takes, and says each time what the answer was', async () => {
    const { ask, asked } = answers(busy)
    const at = clock()
    const slow: typeof ask = async (path, init) => {
      await at.wait(4_000)
      return ask(path, init)
    }
    const refused = vi.fn()
    await expect(compare(slow, 'web', { refused }, never, at)).rejects.toThrow('the agent stands by')
    expect(asked.length).toBe(4)
    expect(refused.mock.calls).toEqual(Array(3).fill(['the agent stands by']))
  })
  test('is of what the hub hands out by then', async () => {
    const { ask, asked } = answers(detail('new'), detail('newer'))
    let handedOut = 'new'
    const moving: typeof ask = async (path, init) => {
      handedOut = 'newer'
      return ask(path, init)
    }
    expect((await compare(moving, 'web', { handedOut: () => handedOut }, never, clock())).digest).toBe(
      'newer',
    )
    expect(asked.length).toBe(2)
  })
  test('ends when no answer comes, as behind a network that is cut', async () => {
    vi.useFakeTimers()
    try {
      const silent = (_: string, init?: RequestInit) =>
        new Promise<Response>((_, fails) =>
          init?.signal?.addEventListener('abort', () => fails(init.signal?.reason)),
        )
      const outcome = expect(compare(silent, 'web', {}, never)).rejects.toThrow('No answer of the cluster')
      await vi.advanceTimersByTimeAsync(30_000)
      await outcome
      const given = new AbortController()
      const ended = expect(compare(silent, 'web', {}, given.signal)).rejects.toThrow('a person went on')
      given.abort(new Error('a person went on'))
      await ended
      expect(vi.getTimerCount()).toBe(0)
    } finally {
      vi.useRealTimers()
    }
  })
  test('sends a folder once, and takes the first answer', async () => {
    const { ask, asked } = answers(detail('other'))
    await compare(ask, 'web', { handedOut: () => 'new', folder: new Blob(['tar']) }, never, clock())
    expect(asked.map(([, init]) => [init?.method, init?.headers])).toEqual([
      ['POST', { 'Content-Type': 'application/x-tar' }],
    ])
  })
  test('is of a folder that came whole', async () => {
    const sum = '8f1b1b0f5e4d0c1a4d0b8a9e'
    const pack = (digest: string) =>
      async function* () {
        yield create(PackServiceResponseSchema, {
          part: {
            case: 'service',
            value: { revision: { commit: 'c1' }, artifact: { digest, files: 2 } },
          },
        })
        for (const text of ['ab', 'c'])
          yield create(PackServiceResponseSchema, {
            part: { case: 'data', value: new TextEncoder().encode(text) },
          })
      }
    const abc = 'sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad'
    const got: Folder = await packed('web', 'c1', never, pack(abc))
    expect([got.commit, got.files, await got.tar.text()]).toEqual(['c1', 2, 'abc'])
    await expect(packed('web', 'c1', never, pack(`sha256:${sum}`))).rejects.toThrow('did not come whole')
    const { ask } = answers(detail('other'))
    const kept = await compareTo(ask, 'web', 'c1', pack(abc), vi.fn(), never)
    expect(Object.keys(kept)).toEqual(['commit', 'files', 'found']) // and not the folder
  })
})

describe('objects that outlive their service', () => {
  const service = (s: Parameters<typeof create<typeof ServiceSchema>>[1]) => create(ServiceSchema, s)
  test('are said so in what files say, under the levers', () => {
    const out = orphaned(
      service({
        spec: { source: 'shop', sync: { mode: SyncMode.HOLD, requestTime: { seconds: 1n } } },
        levers: { mode: { reason: 'odd' }, spec: { source: 'shop' } },
      }),
    )
    expect(out.spec).toMatchObject({
      source: 'shop',
      sync: { mode: SyncMode.UNSPECIFIED, onDelete: DeletePolicy.ORPHAN },
    })
    expect(out.levers?.spec).toBeUndefined()
    expect(orphaned(service({ spec: { sync: { requestTime: { seconds: 1n } } } })).spec?.sync).toMatchObject({
      onDelete: DeletePolicy.ORPHAN,
    })
  })
  // The hub delivered b and c of a spec with orphan, and all else of one without.
  const history = {
    listDeployments: async () => ({
      deployments: [...'edcba'].map((digest, i) =>
        create(DeploymentSchema, { digest, specRevision: 'bc'.includes(digest) ? 7n : BigInt(6 - i) }),
      ),
    }),
    listRevisions: async ({ pageToken }: { pageToken: string }) => ({
      revisions: (pageToken ? [6n, 5n, 4n, 3n, 2n, 1n] : [8n, 7n]).map((revision) =>
        create(RevisionSchema, {
          revision,
          resource: {
            resource: {
              case: 'service',
              value: { spec: { sync: { onDelete: revision >= 7n ? DeletePolicy.ORPHAN : 0 } } },
            },
          },
        }),
      ),
      nextPageToken: pageToken ? '' : '7',
    }),
  }
  const hubOf = (states: Service[]) => ({
    ...history,
    getService: async () => ({ service: states.length > 1 ? states.shift() : states[0] }),
    updateService: async (r: { service: Service }) => r,
  })
  const at = (hub: string, cluster: string) =>
    service({ spec: {}, status: { hub: { digest: hub }, cluster: { report: { digest: cluster } } } })
  test('wait until the cluster has the new content, and no longer than a person waits', async () => {
    // A commit may come before the hub delivers the new spec.
    const states = [at('a', 'a'), at('a', 'a'), at('d', 'd'), at('b', 'd'), at('b', 'b'), at('c', 'c')]
    const left = [...states, at('d', 'd')]
    await detach('web', never, hubOf(left), clock())
    expect(left.map((s) => s.status?.hub?.digest)).toEqual(['c', 'd'])
    const given = new AbortController()
    const waits = detach('web', given.signal, hubOf([at('a', 'a')]), {
      now: () => 0,
      wait: async () => given.abort(),
    })
    await expect(waits).rejects.toThrow('It was not deleted')
    await expect(detach('web', never, hubOf([at('a', 'a')]), clock())).rejects.toThrow('has not reported')
  })
  test('do not wait for another content where an earlier try has said that they stay', async () => {
    await detach('web', never, hubOf([at('b', 'a'), at('b', 'a'), at('b', 'b')]), clock())
    await detach('web', never, hubOf([at('b', 'b')]), clock())
    await detach('web', never, hubOf([at('d', 'b')]), clock()) // what it reported last says so
    await expect(detach('web', never, hubOf([at('b', 'a')]), clock())).rejects.toThrow('has not reported')
    await expect(detach('web', never, hubOf([at('x', 'x')]), clock())).rejects.toThrow('has not reported')
  })
  test('wait over a network that is cut for a moment, and what ends the wait says what is left behind', async () => {
    const states = [at('a', 'a'), new TypeError('Failed to fetch'), at('b', 'b')]
    const failing = (of: (Service | Error)[]) => ({
      ...hubOf([at('a', 'a')]),
      getService: async () => {
        const next = of.length > 1 ? of.shift() : of[0]
        if (next instanceof Error) throw next
        return { service: next }
      },
    })
    await detach('web', never, failing(states), clock())
    const refused = failing([at('a', 'a'), new ConnectError('you may not see it', Code.PermissionDenied)])
    await expect(detach('web', never, refused, clock())).rejects.toThrow(
      'you may not see it. It was not deleted, and has spec.sync.onDelete: orphan now.',
    )
    const cut = failing([at('a', 'a'), new TypeError('Failed to fetch')])
    await expect(detach('web', never, cut, clock())).rejects.toThrow(
      /The hub does not answer.*It was not deleted/,
    )
  })
  test('can not be promised behind a rollback', async () => {
    const hub = { ...hubOf([at('a', 'a')]), updateService: async () => ({ service: at('a', 'a') }) }
    const refused = expect.objectContaining({
      code: Code.FailedPrecondition,
      message: expect.stringContaining('is rolled back'),
    })
    await expect(detach('web', never, hub, clock())).rejects.toEqual(refused)
  })
})

describe('a cluster that is to join', () => {
  const hubOf = (known: () => Promise<unknown>) => {
    const updateCluster = vi.fn(async () => ({}))
    return { getCluster: known, updateCluster }
  }
  test('stays as it is where the catalog has it', async () => {
    const hub = hubOf(async () => ({ cluster: { metadata: { name: 'edge-1', labels: { env: 'prod' } } } }))
    await ensureCluster(hub, 'edge-1')
    expect(hub.updateCluster).not.toHaveBeenCalled()
  })
  test('is made where the catalog does not have it, and then only', async () => {
    const missing = hubOf(() => Promise.reject(new ConnectError('there is none', Code.NotFound)))
    await ensureCluster(missing, 'edge-9')
    // Somebody else may have made it by now: the hub refuses to write over that.
    expect(missing.updateCluster.mock.calls).toEqual([
      [{ cluster: { metadata: { name: 'edge-9', etag: 'new' } }, allowMissing: true }],
    ])
    const away = hubOf(() => Promise.reject(new ConnectError('the hub is away', Code.Unavailable)))
    await expect(ensureCluster(away, 'edge-9')).rejects.toThrow('the hub is away')
    expect(away.updateCluster).not.toHaveBeenCalled()
  })
})

test('a token has the bounds that a person typed, and says them', () => {
  expect(
    commandOf({
      account: ' ci ',
      description: "deploys; it's $HOME",
      days: '7',
      role: 'deployer',
      projects: 'shop, web shop',
      clusters: '',
    }),
  ).toBe(
    `fairlead token create --service-account ci --description 'deploys; it'\\''s $HOME' --lifetime 168h --role deployer --project shop --project web`,
  )
  expect(commandOf({})).toBe('fairlead token create')
  expect(limitsSay(undefined)).toBe('all that its owner may')
  expect(
    limitsSay(
      create(TokenLimitsSchema, {
        role: 'viewer',
        projects: ['shop'],
        clusters: { labels: { env: 'prod' } },
      }),
    ),
  ).toBe('role viewer, in shop, on clusters with env=prod')
})
