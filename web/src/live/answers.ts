import { create, type DescMessage, type DescMethodUnary, type Message } from '@bufbuild/protobuf'
import { Kind } from '../gen/fairlead/console/v1/catalog_service_pb'
import {
  ClusterViewService,
  GetClusterViewRequestSchema,
  ListClusterViewsRequestSchema,
} from '../gen/fairlead/console/v1/cluster_view_service_pb'
import {
  type Event,
  EventService,
  ListEventsRequestSchema,
} from '../gen/fairlead/console/v1/event_service_pb'
import {
  CountResourcesRequestSchema,
  CountResourcesResponseSchema,
  ListQuerySchema,
  LiveService,
  type Query,
  QuerySchema,
  type ResourceCount,
  type WatchQueriesResponse,
} from '../gen/fairlead/console/v1/live_service_pb'
import { quote } from '../hub/filter'

// A page of events grows by what happens. Beyond, it is asked for anew, by the next stream.
const mostEvents = 1000

type Fields = Record<string, unknown>
type Listed = { resource: Message; version: bigint }

// Answer keeps what the stream tells of one method's answer, and is that answer.
export type Answer = {
  // An older console refuses a stream with the query.
  newer?: boolean
  // The query, with what is known of its answer so far.
  query: (name: string) => Query
  // Takes a message in. The answer of the method, if there is one now.
  take: (m: WatchQueriesResponse) => Message | undefined
  // Whether the answer has grown beyond its bound: the next stream asks for it anew.
  full?: () => boolean
}

// Kinds whose status depends on who asks. The stream has the same resource for everybody, without that status.
const personal = [Kind.ALERT, Kind.VIEW_SET]

// The stream carries lists, single resources, counts, events and views of clusters. Other methods are asked again and again.
export function answerOf(method: DescMethodUnary, input: Fields): Answer | undefined {
  if (method === LiveService.method.countResources) return counts(input)
  if (method === ClusterViewService.method.getClusterView) return view(input)
  if (method === ClusterViewService.method.listClusterViews) return views(input)
  if (method === EventService.method.listEvents) return input.pageToken ? undefined : events(input)
  const [verb, kind] = /^(List|Get)(\w+)$/.exec(method.name)?.slice(1) ?? []
  if (!verb || !kind || !method.parent.typeName.startsWith('fairlead.console.v1.')) return undefined
  const field = method.output.fields.find((f) => f.message && f.message.typeName !== 'google.protobuf.Any')
  const number = field?.message && kindOf(field.message)
  if (!field || !number || personal.includes(number)) return undefined
  if (verb === 'List' && number === Kind.ROLE) return undefined // the method adds the roles that are always there, which no catalog holds
  if (verb === 'List' && field.fieldKind === 'list')
    return list(method.output, field.localName, number, input)
  if (verb === 'Get' && field.fieldKind === 'message')
    return single(method.output, field.localName, number, input)
  return undefined
}

function kindOf(of: DescMessage): Kind | undefined {
  const word = of.name.replace(/(?<!^)([A-Z])/g, '_$1').toUpperCase()
  return of.typeName.startsWith('fairlead.console.v1.') ? Kind[word as keyof typeof Kind] : undefined
}

// An older console sends all counts each time.
function counts(input: Fields): Answer {
  let known = new Map<string, ResourceCount>()
  const keyed = (list: ResourceCount[]) => list.map((c): [string, ResourceCount] => [c.values.join('\0'), c])
  return {
    query: (name) =>
      create(QuerySchema, {
        name,
        query: { case: 'counts', value: create(CountResourcesRequestSchema, input) },
        onlyChanges: true,
      }),
    take: (m) => {
      if (m.event.case === 'counts') {
        known = new Map(keyed(m.event.value.counts))
        return m.event.value
      }
      if (m.event.case !== 'countChanges') return undefined
      const before = known.size
      const changes = keyed(m.event.value.counts)
      for (const [key, changed] of changes) if (changed.count > 0) known.set(key, changed)
      const added = known.size > before
      for (const [key, changed] of changes) if (changed.count === 0) known.delete(key)
      if (added) known = new Map([...known].sort(([a], [b]) => (a < b ? -1 : 1)))
      const { observedTime } = m.event.value
      return create(CountResourcesResponseSchema, { counts: [...known.values()], observedTime })
    },
  }
}

function view(input: Fields): Answer {
  return {
    newer: true,
    query: (name) =>
      create(QuerySchema, {
        name,
        query: { case: 'view', value: create(GetClusterViewRequestSchema, input) },
      }),
    take: (m) => (m.event.case === 'view' ? m.event.value : undefined),
  }
}

function views(input: Fields): Answer {
  return {
    newer: true,
    query: (name) =>
      create(QuerySchema, {
        name,
        query: { case: 'views', value: create(ListClusterViewsRequestSchema, input) },
      }),
    take: (m) => (m.event.case === 'views' ? m.event.value : undefined),
  }
}

function list(output: DescMessage, field: string, kind: Kind, input: Fields): Answer {
  const page = listed(kind, named(input))
  return {
    query: page.query,
    take: (m) => {
      const found = page.take(m)
      return found && create(output, { [field]: found.resources, nextPageToken: found.next } as Fields)
    },
  }
}

function single(output: DescMessage, field: string, kind: Kind, input: Fields): Answer {
  const page = listed(kind, { filter: `name = ${quote(String(input.name ?? ''))}`, pageSize: 1 })
  return {
    query: page.query,
    // Without a resource there is no answer but an error, which the method itself words.
    take: (m) => {
      const found = page.take(m)?.resources[0]
      return found && create(output, { [field]: found } as Fields)
    },
  }
}

// Rows are told apart by their names, so that a mask without the name gets it.
function named(input: Fields): Fields {
  const paths = (input.readMask as { paths?: string[] } | undefined)?.paths
  if (!paths?.length || paths.includes('metadata.name') || paths.includes('metadata')) return input
  return { ...input, readMask: { paths: ['metadata.name', ...paths] } }
}

function listed(kind: Kind, input: Fields) {
  let names: string[] | undefined
  let rows = new Map<string, Listed>()
  return {
    query: (name: string) =>
      create(QuerySchema, {
        name,
        query: { case: 'list', value: create(ListQuerySchema, { ...input, kind }) },
        known: [...rows].map(([name, { version }]) => ({ name, version })),
      }),
    take: (m: WatchQueriesResponse) => {
      if (m.event.case !== 'list') return undefined
      for (const { resource, version } of m.event.value.resources) {
        const value = resource?.resource.value
        if (value) rows.set(value.metadata?.name ?? '', { resource: value, version })
      }
      names = m.event.value.names?.names ?? names ?? []
      rows = new Map(
        names.flatMap((name) => {
          const row = rows.get(name)
          return row ? [[name, row]] : []
        }),
      )
      return { resources: [...rows.values()].map((r) => r.resource), next: m.event.value.nextPageToken }
    },
  }
}

function events(input: Fields): Answer {
  let list: Event[] = []
  let next = ''
  let resume = ''
  const full = () => list.length > mostEvents
  return {
    query: (name) =>
      create(QuerySchema, {
        name,
        query: { case: 'events', value: create(ListEventsRequestSchema, input) },
        resumeToken: full() ? '' : resume,
      }),
    full,
    take: (m) => {
      if (m.event.case !== 'events') return undefined
      const { whole, events, nextPageToken, resumeToken } = m.event.value
      if (whole) next = nextPageToken
      list = whole ? events : [...events.toReversed(), ...list]
      resume = resumeToken
      return create(EventService.method.listEvents.output, {
        events: list,
        nextPageToken: next,
        resumeToken,
      })
    },
  }
}
