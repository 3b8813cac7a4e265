import { create, type DescMessage, type DescMethodUnary, type MessageInitShape } from '@bufbuild/protobuf'
import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import { Code, ConnectError, createRouterTransport } from '@connectrpc/connect'
import { createConnectQueryKey, TransportProvider } from '@connectrpc/connect-query'
import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { isValidElement } from 'react'
import { renderToStaticMarkup } from 'react-dom/server'
import { MemoryRouter } from 'react-router'
import { afterAll, describe, expect, test, vi } from 'vitest'
import { AccessService } from '../gen/fairlead/console/v1/access_service_pb'
import { AdminService, GetHubResponseSchema } from '../gen/fairlead/console/v1/admin_service_pb'
import { Kind } from '../gen/fairlead/console/v1/catalog_service_pb'
import { ClusterService } from '../gen/fairlead/console/v1/cluster_service_pb'
import {
  type ClusterViewSchema,
  ClusterViewService,
} from '../gen/fairlead/console/v1/cluster_view_service_pb'
import { EventService } from '../gen/fairlead/console/v1/event_service_pb'
import {
  GlobalServiceSchema,
  GlobalServiceService,
  PlannedAction,
  PreviewGlobalServiceResponseSchema,
} from '../gen/fairlead/console/v1/global_service_service_pb'
import { AccessRequestState, LendingService } from '../gen/fairlead/console/v1/lending_service_pb'
import { LiveService } from '../gen/fairlead/console/v1/live_service_pb'
import { RecordingService } from '../gen/fairlead/console/v1/recording_service_pb'
import { ServiceSchema } from '../gen/fairlead/console/v1/resources_pb'
import {
  DeploymentCause,
  DeploymentOutcome,
  RevisionService,
} from '../gen/fairlead/console/v1/revision_service_pb'
import { ServiceService } from '../gen/fairlead/console/v1/service_service_pb'
import { SourceService } from '../gen/fairlead/console/v1/source_service_pb'
import { SyncService } from '../gen/fairlead/console/v1/sync_service_pb'
import { DeletePolicy } from '../gen/fairlead/delivery/v1/options_pb'
import { SectionState } from '../gen/fairlead/delivery/v1/views_pb'
import { ShardService } from '../gen/fairlead/gitcache/v1/shard_pb'
import type { Pulled, useLever } from '../ui/Ask'
import { pageText } from '../ui/paging'
import { kindNamed, type ResourceKind } from '../ui/resources'

// Parts of pages as they are drawn first, over answers that the hub gave before. Modules look at the address of the page when they are loaded.
vi.hoisted(() => {
  vi.stubGlobal('window', { location: new URL('https://hub.example') })
  vi.stubGlobal('document', { addEventListener: () => {}, visibilityState: 'visible' })
})
// The stream is of a tab; what it would carry is asked once here.
vi.mock('../live/live', async () => ({ useLive: (await import('@connectrpc/connect-query')).useQuery }))
afterAll(() => vi.unstubAllGlobals())

const holds: { refuse?: ConnectError; asked: string[] } = { asked: [] }
const transport = createRouterTransport(({ service }) =>
  service(SyncService, {
    holdService: ({ reason }) => {
      holds.asked.push(reason)
      if (holds.refuse) throw holds.refuse
      return {}
    },
  }),
)

function drawing(address = '/') {
  const queries = new QueryClient({ defaultOptions: { queries: { retry: false } } })
  return {
    answer<I extends DescMessage, O extends DescMessage>(
      schema: DescMethodUnary<I, O>,
      input: MessageInitShape<I>,
      answer: MessageInitShape<O>,
    ) {
      queries.setQueryData(
        createConnectQueryKey({ schema, input, transport, cardinality: 'finite' }),
        create(schema.output, answer),
      )
    },
    // What a cluster answered.
    know: (queryKey: unknown[], answer: unknown) => queries.setQueryData(queryKey, answer),
    draw: (what: React.ReactNode) =>
      renderToStaticMarkup(
        <TransportProvider transport={transport}>
          <QueryClientProvider client={queries}>
            <MemoryRouter initialEntries={[address]}>{what}</MemoryRouter>
          </QueryClientProvider>
        </TransportProvider>,
      ),
  }
}

const words = (drawn: string) => drawn.replace(/<[^>]*>/g, ' ').replace(/\s+/g, ' ')

describe('a later page that has no rows any more says so, and leads back', () => {
  test('of events', async () => {
    const { EventsOf } = await import('../ui/EventsOf')
    const filter = 'severity >= WARNING'
    const page = drawing(`/?${new URLSearchParams({ 'page.events': pageText(filter, 3, 'token') })}`)
    page.answer(EventService.method.listEvents, { filter, pageSize: 50, pageToken: 'token' }, {})
    const drawn = page.draw(<EventsOf filter={filter} size={50} />)
    expect(drawn).toContain('This page has no rows any more.')
    expect(drawn).toContain('First page</button>')
    const first = drawing()
    first.answer(EventService.method.listEvents, { filter, pageSize: 50, pageToken: '' }, {})
    expect(first.draw(<EventsOf filter={filter} size={50} />)).toBe(
      '<p>No event of the last seven days fits.</p>',
    )
  })
  test('of recordings', async () => {
    const { Recordings } = await import('../pages/access/Recordings')
    const page = drawing(`/?${new URLSearchParams({ page: pageText('\n', 2, 'token') })}`)
    page.answer(
      RecordingService.method.listRecordings,
      { cluster: '', subject: '', pageSize: 100, pageToken: 'token' },
      {},
    )
    expect(page.draw(<Recordings />)).toMatch(/no rows any more.*Back<\/button>/)
  })
  test('of what was delivered', async () => {
    const { History } = await import('../pages/service/History')
    const page = drawing(`/?${new URLSearchParams({ page: pageText('web', 2, 'token') })}`)
    page.answer(
      RevisionService.method.listDeployments,
      { service: 'web', pageSize: 30, pageToken: 'token' },
      {},
    )
    const web = create(ServiceSchema, { metadata: { name: 'web' } })
    expect(page.draw(<History of={web} changed={() => {}} />)).toMatch(/no rows any more.*Back<\/button>/)
  })
})

test('a service that was deleted is told of for an hour, also by a page that stays open', async () => {
  const { default: Gone } = await import('../pages/services/Gone')
  const page = drawing()
  const filter = 'type = service.deleted AND time > 1h'
  const ago = (service: string, minutes: number) => ({
    service,
    time: timestampFromMs(Date.now() - minutes * 60_000),
  })
  page.answer(
    EventService.method.listEvents,
    { filter, pageSize: 100 },
    { events: [ago('web', 50), ago('shop', 70)] },
  )
  for (const names of ['name = web', 'name = shop OR name = web'])
    page.answer(
      ServiceService.method.listServices,
      { filter: names, pageSize: 20, readMask: { paths: ['metadata.name'] } },
      {},
    )
  const drawn = page.draw(<Gone />)
  expect(drawn).toContain('/service/web')
  expect(drawn).not.toContain('/service/shop')
})

test('the fleet tells of the newest changes of an hour, however many the stream brings', async () => {
  const { Changed } = await import('../pages/fleet/Fleet')
  const page = drawing()
  const time = (minutes: number) => timestampFromMs(Date.now() - minutes * 60_000)
  const events = Array.from({ length: 12 }, (_, i) => ({ id: `${i}`, service: `web-${i}`, time: time(i) }))
  const of = { filter: 'time > 1h AND type : service', pageSize: 10 }
  page.answer(EventService.method.listEvents, of, { events })
  expect(page.draw(<Changed />).match(/\/service\/web-\d+"/g)?.length).toBe(10)
  page.answer(EventService.method.listEvents, of, { events: [{ id: 'old', service: 'web', time: time(61) }] })
  expect(words(page.draw(<Changed />))).toContain('Nothing did.')
})

describe('a time', () => {
  test('has an age that is not read aloud', async () => {
    const { Said } = await import('../ui/Said')
    const drawn = drawing().draw(<Said of="held since 2026-11-24T14:02:11Z." />)
    expect(drawn).toMatch(
      /<time [^>]*>[^<]*2026[^<]* <span aria-hidden="true">\(\w+ ago\)<\/span><\/time>\.$/,
    )
  })
  test('that is none takes no page away', async () => {
    const { At } = await import('../live/At')
    const { Age } = await import('../live/Age')
    const { isoOf } = await import('../ui/text')
    const never = { $typeName: 'google.protobuf.Timestamp', seconds: 1n << 60n, nanos: 0 } as const
    expect(drawing().draw(<At of={new Date('soon')} />)).toBe('<span>an unknown time</span>')
    expect(drawing().draw(<Age of={never} />)).toBe('<span class="quiet">unknown</span>')
    expect(isoOf(never)).toBe('')
  })
})

test('a source has one word for its state, and a link that says where it leads', async () => {
  const { Sources } = await import('../pages/sources/Sources')
  const page = drawing()
  page.answer(
    SourceService.method.listSources,
    { filter: '', orderBy: 'state desc, name', pageSize: 100, pageToken: '' },
    { sources: [{ metadata: { name: 'shop' }, status: { problem: { message: 'fetch refs: 401.' } } }] },
  )
  const drawn = page.draw(<Sources />)
  expect(words(drawn)).toContain(' failing ')
  expect(words(drawn)).not.toContain('failed')
  expect(drawn).toContain('aria-label="its services: shop"')
})

test('a sync of a closed service asks for an override only where windows want one', async () => {
  const { Levers } = await import('../pages/service/Levers')
  const sync = (windows: { closed: boolean; manualSync?: boolean }) => {
    const of = create(ServiceSchema, { metadata: { name: 'web' }, status: { windows } })
    return words(drawing().draw(<Levers of={of} changed={() => {}} />)).split(' Hold ')[0]
  }
  expect(sync({ closed: true })).toMatch(/Windows or a freeze close this service.*Override them/)
  const passes = sync({ closed: true, manualSync: true })
  expect(passes).toContain('Windows close this service, and let a person&#x27;s sync through.')
  expect(passes).not.toContain('Override')
  expect(sync({ closed: false })).not.toMatch(/[Ww]indows|Override/)
})

test('a comparison says when it is of other content than the hub hands out', async () => {
  const { Other } = await import('../pages/service/Diff')
  const of = (digest: string, handedOut: string) =>
    drawing().draw(<Other digest={digest} handedOut={handedOut} />)
  expect(of('sha256:old', 'sha256:new')).toContain('The hub hands out something else by now')
  expect([of('sha256:new', 'sha256:new'), of('sha256:new', '')]).toEqual(['', ''])
})

let hold: Pulled<typeof SyncService.method.holdService.input> | undefined
function Holds({ use }: { use: typeof useLever }) {
  hold = use(SyncService.method.holdService, () => {})
  return null
}

test('two clicks send one request, and another one goes once it is answered', async () => {
  const { useLever: use } = await import('../ui/Ask')
  drawing().draw(<Holds use={use} />)
  const click = (reason: string) => hold?.pull({ name: 'web', reason })
  const clickUntil = (...reasons: string[]) =>
    vi.waitFor(
      () => {
        if (holds.asked.length < reasons.length) click(reasons.at(-1) ?? '')
        expect(holds.asked).toEqual(reasons)
      },
      { timeout: 60_000 },
    )
  click('first')
  click('first, again')
  await clickUntil('first')
  holds.refuse = new ConnectError('not now', Code.FailedPrecondition)
  await clickUntil('first', 'second')
  await clickUntil('first', 'second', 'third')
})

test('what asked for a lever learns that it is refused, also when it is gone from the page', async () => {
  const { useLever: use } = await import('../ui/Ask')
  drawing().draw(<Holds use={use} />)
  holds.refuse = new ConnectError('not now', Code.FailedPrecondition)
  const refused = await new Promise((failed) => hold?.pull({ name: 'web', reason: 'x' }, undefined, failed))
  expect(refused).toMatchObject({ rawMessage: 'not now' })
})

describe('a service that was deleted', () => {
  const deleted = async (onDelete: DeletePolicy) => {
    const { default: Deleted } = await import('../ui/Deleted')
    const page = drawing()
    const time = timestampFromMs(Date.now() - 60_000)
    page.answer(
      RevisionService.method.listRevisions,
      { kind: Kind.SERVICE, name: 'web', pageSize: 2 },
      {
        revisions: [
          { action: 'deleted', author: 'user:ada', time },
          { resource: { resource: { case: 'service', value: { spec: { sync: { onDelete } } } } } },
        ],
      },
    )
    return page.draw(<Deleted of={kindNamed('Service') as ResourceKind} name="web" back={() => {}} />)
  }
  test('says beforehand that it comes back as one whose objects stay', async () => {
    const drawn = await deleted(DeletePolicy.ORPHAN)
    expect(drawn).toContain('spec.sync.onDelete: orphan, as when it was deleted')
    expect(drawn).toContain('which stayed in the cluster')
  })
  test('says nothing of that where its objects went', async () => {
    const drawn = await deleted(DeletePolicy.UNSPECIFIED)
    expect(drawn).toContain('its objects are applied anew')
    expect(drawn).not.toContain('orphan')
  })
})

describe('the view of a cluster', () => {
  const viewed = async (view: MessageInitShape<typeof ClusterViewSchema>) => {
    const { View } = await import('../pages/cluster/View')
    const page = drawing()
    page.answer(ClusterViewService.method.getClusterView, { cluster: 'edge-1' }, { view })
    return page.draw(<View cluster="edge-1" />)
  }
  const sections = [{ name: 'pods', state: SectionState.WHOLE, sample: 8, withheld: 12n }]
  test('that follows it is fresh', async () => {
    const drawn = await viewed({ connected: true, sections })
    expect(drawn).toMatch(/class="columns"/)
    expect(drawn).toContain('One of 8 objects was counted, and the figures multiplied.')
    expect(drawn).toContain('12 more are counted and not listed.')
  })
  test('whose pushes the hub refuses never looks fresh', async () => {
    const drawn = await viewed({ connected: true, sections, unfollowed: 'the hub refuses its views' })
    expect(drawn).toMatch(/class="columns away"/)
    expect(drawn).toContain('the hub refuses its views')
  })
})

test('what a cluster says of a workload leads to that workload, whatever else is not well', async () => {
  const { default: Why } = await import('../pages/service/Why')
  const page = drawing()
  const objects = [
    { group: '', kind: 'Service', namespace: 'shop', name: 'web' },
    { group: 'apps', kind: 'Deployment', namespace: 'shop', name: 'web' },
  ]
  const found = {
    ...objects[1],
    container: '',
    words: 'it has no pod that is not well',
    lines: [],
    events: ['2026-01-02T03:04:05Z', 'yesterday'].map((time) => ({ time, reason: 'Killing', message: time })),
  }
  page.know(['why', 'edge-1', objects], found)
  const of = create(ServiceSchema, {
    spec: { cluster: 'edge-1' },
    status: { cluster: { report: { objects } } },
  })
  expect(page.draw(<Why of={of} />)).toContain(
    '/cluster/edge-1/explore?kind=Deployment.apps&amp;obj=shop%2Fweb"',
  )
  expect(words(page.draw(<Why of={of} />))).toMatch(/2026-01-0\d \d\d:\d\d \d+d Killing.* unknown Killing/)
})

test('a dialog that goes while it is open is closed before the heading gets the focus', async () => {
  const { handOnFocus } = await import('../ui/Ask')
  const was = document
  const did: string[] = []
  const inside = {}
  const dialog = { contains: (at: unknown) => at === inside, close: () => did.push('close') }
  const page = { querySelector: () => ({ focus: () => did.push('focus') }) }
  vi.stubGlobal('document', { ...page, activeElement: inside })
  handOnFocus(null, dialog as unknown as HTMLDialogElement)
  expect(did).toEqual(['close', 'focus'])
  vi.stubGlobal('document', { ...page, activeElement: {} }) // the focus is elsewhere
  handOnFocus(null, dialog as unknown as HTMLDialogElement)
  expect(did.length).toBe(2)
  vi.stubGlobal('document', was)
})

let looked: React.ReactNode
function Looks({ at }: { at: () => React.ReactNode }) {
  looked = at()
  return null
}

test('what asks about an object of a cluster does not ask about its successor of the same name', async () => {
  const { Thing } = await import('../pages/explore/Thing')
  const { Actions } = await import('../pages/explore/Actions')
  const kind = { group: '', version: 'v1', kind: 'ConfigMap', plural: 'configmaps', namespaced: true }
  const of = { ...kind, verbs: ['delete'], short: [], parts: [] }
  const partsOf = (node: React.ReactNode): React.ReactElement[] =>
    (Array.isArray(node) ? node : [node]).flatMap((n) =>
      isValidElement<React.PropsWithChildren>(n) ? [n, ...partsOf(n.props.children)] : [],
    )
  const keyOf = (uid: string) => {
    const page = drawing()
    page.know(['thing', 'edge-1', '', 'configmaps', 'shop/flags'], {
      metadata: { name: 'flags', namespace: 'shop', uid },
    })
    const looks = () =>
      Thing({ cluster: 'edge-1', ask: () => Promise.reject(), kind: of, kinds: [of], at: 'shop/flags' })
    page.draw(<Looks at={looks} />)
    return partsOf(looked).find((p) => p.type === Actions)?.key
  }
  expect(keyOf('a')).toBe('a')
  expect(keyOf('b')).toBe('b')
})

test('what a global service does on each cluster is counted, and can be saved', async () => {
  const { Planned } = await import('../ui/Planned')
  const of = create(PreviewGlobalServiceResponseSchema, {
    services: [
      { name: 'web-edge-1', cluster: 'edge-1', action: PlannedAction.CREATE, problem: 'the name is taken' },
      { name: 'web-edge-2', cluster: 'edge-2', action: PlannedAction.DELETE },
      { name: 'web-edge-3', cluster: 'edge-3', action: PlannedAction.KEEP },
    ],
    created: 1,
    deleted: 1,
    unchanged: 1,
    heldBack: true,
  })
  const drawn = drawing().draw(<Planned of={of} name="web" />)
  expect(words(drawn)).toContain(
    'Fits 2 clusters: 1 created, 0 changed, 1 deleted, 0 detached, 1 the same; the guard holds',
  )
  expect(words(drawn)).toMatch(/web-edge-1 edge-1 created the name is taken web-edge-2 edge-2 deleted/)
  expect(drawn).not.toContain('href="/service/web-edge-1"') // it is not there yet
  expect(drawn).toContain('CSV</button>')
  const seen = (administrator: boolean) => {
    const page = drawing()
    page.answer(AccessService.method.getCaller, {}, { administrator })
    return words(page.draw(<Planned of={of} name="web" />))
  }
  const others = 'Only clusters and services that you may see are counted. There may be others.'
  expect(seen(true)).not.toContain(others)
  expect(seen(false)).toContain(others)
})

test('a history says of which source and folder a deployment is where that is new', async () => {
  const { History } = await import('../pages/service/History')
  const page = drawing()
  const of = (number: number, source: string, path: string) => ({ number: BigInt(number), source, path })
  page.answer(
    RevisionService.method.listDeployments,
    { service: 'web', pageSize: 30, pageToken: '' },
    {
      deployments: [
        of(6, 'shop', 'web'),
        of(5, 'shop', 'web'),
        of(4, '', ''), // an earlier console noted none
        of(3, 'shop', 'web'),
        of(2, 'shop', ''),
        of(1, 'old', ''),
      ],
    },
  )
  const web = create(ServiceSchema, { metadata: { name: 'web' } })
  const rows = page
    .draw(<History of={web} changed={() => {}} />)
    .split('<tr>')
    .slice(2)
    .map(words)
  expect(rows.map((r) => /of source (.*?) Roll back/.exec(r)?.[1]?.trim() ?? '')).toEqual([
    '',
    '',
    '',
    'shop, folder web',
    'shop',
    'old',
  ])
})

test('a history counts no steps of a commit that was there before', async () => {
  const { History } = await import('../pages/service/History')
  const page = drawing()
  const at = (seconds: number) => timestampFromMs(seconds * 1000)
  const of = { commit: { commitTime: at(0) }, deliverTime: at(90_000), applyTime: at(90_002) }
  page.answer(
    RevisionService.method.listDeployments,
    { service: 'web', pageSize: 30, pageToken: '' },
    {
      deployments: [
        { ...of, number: 2n, cause: DeploymentCause.ROLLBACK, fetchTime: at(5) },
        { ...of, number: 1n, cause: DeploymentCause.COMMIT, fetchTime: at(89_999) },
      ],
    },
  )
  const web = create(ServiceSchema, { metadata: { name: 'web' } })
  const [rollback, commit] = page
    .draw(<History of={web} changed={() => {}} />)
    .split('<tr>')
    .slice(2)
    .map(words)
  expect(commit).toContain('25h 1.0s 2.0s')
  expect(rollback).not.toMatch(/25h|5.0s/)
  expect(rollback).toContain('2.0s')
})

test('the Fleet says what needs a person before it says figures', async () => {
  const { Fleet } = await import('../pages/fleet/Fleet')
  const page = drawing()
  page.answer(LiveService.method.countResources, { kind: Kind.SERVICE, groupBy: ['cluster', 'state'] }, {})
  page.answer(LiveService.method.countResources, { kind: Kind.CLUSTER, groupBy: ['name', 'connected'] }, {})
  const said = words(page.draw(<Fleet />))
  const order = ['Needs a person', 'In the clusters', 'The last 24 hours'].map((t) => said.indexOf(t))
  expect(order).toEqual(order.filter((at) => at >= 0).sort((a, b) => a - b))
})

describe('tables of what a cluster tells can be saved', () => {
  test('its events, with their time of day', async () => {
    const { EventTable } = await import('../cluster/EventTable')
    const event = { metadata: { uid: '1' }, reason: 'BackOff', lastTimestamp: '2026-01-02T03:04:05Z' }
    const drawn = drawing().draw(<EventTable events={[event]} file="web-events" />)
    expect(drawn).toContain('CSV</button>')
    expect(words(drawn)).toMatch(/2026-01-0\d \d\d:\d\d \d+d/)
  })
  test('the conditions of an object', async () => {
    const { Summary } = await import('../pages/explore/Thing')
    const conditions = [
      { type: 'Ready', status: 'False', reason: 'Crash', message: 'exit 1', lastTransitionTime: 7 },
    ]
    const drawn = drawing().draw(
      <Summary of={{ metadata: { name: 'web' }, status: { conditions } }} secret={false} />,
    )
    expect(drawn).toContain('YAML</button>')
    expect(words(drawn)).toMatch(/Ready False .*Crash exit 1/)
  })
  test('objects that are not well', async () => {
    const { View } = await import('../pages/cluster/View')
    const page = drawing()
    const rows = [{ key: '1', kind: 'Pod', namespace: 'shop', name: 'web-0', reason: 'CrashLoopBackOff' }]
    const whole = { state: SectionState.WHOLE }
    const sections = [
      { name: 'pods', rows, ...whole },
      { name: 'claims', ...whole },
    ]
    page.answer(ClusterViewService.method.getClusterView, { cluster: 'edge-1' }, { view: { sections } })
    expect(page.draw(<View cluster="edge-1" />)).toContain('<button type="button">CSV</button>')
  })
})

test('removals that the hub holds are confirmed after a question', async () => {
  const { Hub } = await import('../pages/hub/Hub')
  const page = drawing('/hub')
  const clusters = [
    { cluster: 'edge-1', services: ['a', 'b'] },
    { cluster: 'edge-2', services: ['c'] },
  ]
  const holdTime = timestampFromMs(Date.now() - 60_000)
  page.answer(AdminService.method.getRemovals, {}, { holdTime, id: '1', reason: 'restored', clusters })
  const drawn = page.draw(<Hub />)
  expect(drawn).toMatch(/<dialog aria-label="Remove 3 services from 2 clusters">/)
})

test('what waits for a person besides services is on the fleet', async () => {
  const { default: Waits } = await import('../pages/fleet/Waits')
  const page = drawing()
  expect(page.draw(<Waits />)).toBe('')
  const createTime = timestampFromMs(Date.now() - 60_000)
  const asks = {
    id: '1',
    subject: 'user:ada',
    cluster: 'edge-1',
    role: 'operator',
    reason: 'down',
    createTime,
  }
  page.answer(
    LendingService.method.listAccessRequests,
    { pageSize: 100 },
    {
      requests: [
        { ...asks, state: AccessRequestState.WAITING },
        { ...asks, id: '2', subject: 'user:bob', state: AccessRequestState.APPROVED },
      ],
    },
  )
  page.answer(
    GlobalServiceService.method.listGlobalServices,
    { pageSize: 1000, readMask: { paths: ['metadata.name', 'status'] } },
    {
      globalServices: [
        { metadata: { name: 'calm' }, status: { clusters: 3 } },
        {
          metadata: { name: 'node-exporter' },
          status: { heldBackTotal: 12, heldBackSince: timestampFromMs(Date.now() - 7_200_000) },
        },
      ],
    },
  )
  const drawn = words(page.draw(<Waits />))
  expect(drawn).toMatch(/node-exporter global service · 2h .*deletes 12 services when a person confirms it/)
  expect(drawn).toMatch(/request of user:ada edge-1 · 1m.* role operator: down/)
  expect(drawn).not.toMatch(/bob|calm|removals of the hub/)
})

test('a global service says for how long the guard holds back what it deletes', async () => {
  const { Says } = await import('../pages/globals/Globals')
  const says = (heldBackTotal: number, since?: number) => {
    const heldBackSince = since === undefined ? undefined : timestampFromMs(Date.now() - since)
    const status = { clusters: 3, healthy: 3, heldBackTotal, heldBackSince }
    return words(
      drawing().draw(<Says of={create(GlobalServiceSchema, { metadata: { name: 'logs' }, status })} />),
    )
  }
  expect(says(0)).not.toContain('held back')
  expect(says(1, 7_200_000)).toContain('1 removal waits for a person, held back for 2h')
  expect(says(12)).toMatch(/12 removals wait for a person $/)
})

test('the first step of a delivery that failed is not shown as one that waits', async () => {
  const { Delivery } = await import('../pages/service/Delivery')
  const page = drawing()
  const time = timestampFromMs(Date.now() - 60_000)
  const failed = { number: 3n, outcome: DeploymentOutcome.FAILED, message: 'no such image', fetchTime: time }
  page.answer(
    RevisionService.method.listDeployments,
    { service: 'web', pageSize: 1 },
    { deployments: [{ ...failed, commit: { commit: 'abc', commitTime: time }, deliverTime: time }] },
  )
  const drawn = page.draw(<Delivery service="web" version="" />)
  expect(drawn).toMatch(/failed[^<]*"[^>]*>(<[^>]*>|[^<])*not applied/)
  expect(words(drawn)).toContain('no such image')
})

test('a cluster in the list has the number of its services, as the worst one is', async () => {
  const { Clusters } = await import('../pages/clusters/Clusters')
  const page = drawing('/clusters')
  const readMask = { paths: ['metadata.name', 'metadata.labels', 'status'] }
  page.answer(
    ClusterService.method.listClusters,
    { filter: '', orderBy: 'connected', pageSize: 100, pageToken: '', readMask },
    { clusters: [{ metadata: { name: 'edge-1' } }, { metadata: { name: 'edge-2' } }] },
  )
  page.answer(
    LiveService.method.countResources,
    { kind: Kind.SERVICE, groupBy: ['cluster', 'state'] },
    {
      counts: [
        { values: ['edge-1', 'healthy'], count: 4 },
        { values: ['edge-1', 'failed'], count: 1 },
      ],
    },
  )
  const drawn = page.draw(<Clusters />)
  expect(drawn.match(/aria-label="[^"]*services?: [^"]*"/g)).toEqual([
    'aria-label="1 failed of 5 services: 1 failed, 4 healthy"',
  ])
  expect(words(drawn)).toContain('1 failed of 5')
})

test('replicas of the hub are listed, and those of another version say so', async () => {
  const { Replicas } = await import('../pages/hub/Replicas')
  const page = drawing()
  page.answer(
    ShardService.method.listReplicas,
    {},
    {
      replicas: [{ name: 'gitcache-0', version: 'v2' }],
      others: [{ service: 'tunnel', name: 'tunnel-0', version: 'v1', draining: true }],
    },
  )
  const consoles = [
    { name: 'console-0:7400', version: 'v2', answers: true },
    { name: 'console-1:7400', version: 'v1' },
  ]
  const hub = create(GetHubResponseSchema, { version: 'v2', consoles })
  const drawn = words(page.draw(<Replicas hub={hub} />))
  expect(drawn).toMatch(/console console-0:7400 answers this page serves v2 not known/)
  expect(drawn).toMatch(/console console-1:7400 serves v1 not the version of the console that answers/)
  expect(drawn).toMatch(/gitcache gitcache-0 serves v2 not known/)
  expect(drawn).toMatch(/tunnel tunnel-0 drains v1 not the version of the console that answers/)
  expect(drawn).not.toContain('share a Redis')
})

test('an address with odd hours does not take the audit trail away', async () => {
  const { Audit } = await import('../pages/activity/Audit')
  for (const hours of ['1e300', 'Infinity', 'soon', '-1'])
    expect(drawing(`/activity?tab=audit&hours=${hours}`).draw(<Audit />)).toContain('the audit trail')
})

test('a question about access stands in its form as it was asked, also one without a kind', async () => {
  const { Access } = await import('../pages/access/Access')
  const form = (address: string) => drawing(address).draw(<Access />)
  const selected = (drawn: string) => [...drawn.matchAll(/<option([^>]*) selected="">/g)].map(([, v]) => v)
  const api = form('/access?tab=check&verb=exec&cluster=edge-1&groups=web-team%2C+shop')
  expect(selected(api)).toEqual(['', ' value=""'])
  expect(api).toContain('value="web-team shop"')
  expect(selected(form('/access'))).toEqual(['', ''])
})
