import { Code, ConnectError } from '@connectrpc/connect'
import { useQuery } from '@tanstack/react-query'
import { lazy } from 'react'
import { Link, useSearchParams } from 'react-router'
import { EventTable } from '../../cluster/EventTable'
import { type ClusterEvent, newestFirst } from '../../cluster/events'
import { addressOf, type Kind, pathOf } from '../../cluster/kinds'
import { podsOf } from '../../cluster/pods'
import { type Ask, json } from '../../cluster/request'
import { useRight } from '../../cluster/rights'
import type { Metadata } from '../../cluster/table'
import { failureOf } from '../../hub/errors'
import { every, useFreshness } from '../../live/asked'
import { Since } from '../../live/Since'
import { Export } from '../../ui/Export'
import { Opened } from '../../ui/Opened'
import { Failed, Stale, Waiting } from '../../ui/Panel'
import { Part } from '../../ui/Part'
import { Tabs, useTab } from '../../ui/Tabs'
import { amount, plain } from '../../ui/text'
import { toYaml } from '../../ui/yaml'
import { Actions } from './Actions'
import { Edit } from './Edit'
import { isSecret } from './Explore'
import { PodLogs } from './PodLogs'

// The terminal is larger than the pages.
const Shell = lazy(() => import('./Shell'))

export type Thing = {
  apiVersion?: string
  kind?: string
  metadata: Metadata & {
    finalizers?: string[]
    managedFields?: { manager?: string; operation?: string; subresource?: string; time?: string }[]
  }
  spec?: Record<string, unknown>
  status?: Record<string, unknown>
}

// An object: what it is and how it is, as YAML, its events, and for pods their logs.
export function Thing({
  cluster,
  ask,
  kind,
  kinds,
  at,
}: {
  cluster: string
  ask: Ask
  kind: Kind
  kinds: Kind[]
  at: string
}) {
  const [params] = useSearchParams()
  const [first = '', second] = at.split('/')
  const [namespace, name] = second === undefined ? ['', first] : [first, second]
  const secret = isSecret(kind)
  const got = useQuery({
    queryKey: ['thing', cluster, kind.group, kind.plural, at],
    queryFn: () =>
      secret
        ? summaryOf(ask, pathOf(kind, namespace, name))
        : json<Thing>(ask(pathOf(kind, namespace, name))),
    refetchInterval: every,
  })
  const pods = podsOf(kind, got.data)
  const isPod = kind.group === '' && kind.plural === 'pods'
  const names = [
    'summary',
    ...(secret ? [] : ['yaml']),
    'events',
    ...(pods !== undefined ? ['logs'] : []),
    ...(isPod ? ['shell'] : []),
    ...(secret || !kind.verbs.includes('patch') ? [] : ['edit']),
  ]
  const tab = useTab(names)
  const fresh = useFreshness([got])
  const back = new URLSearchParams(params)
  back.delete('obj')
  back.delete('tab')
  const gone = got.error !== null && ConnectError.from(got.error).code === Code.NotFound
  const thing = gone ? undefined : got.data
  return (
    <>
      <div className="head">
        <h2>
          {plain(namespace ? `${namespace}/${name}` : name, 320)}
          {thing?.metadata.deletionTimestamp && <span className="quiet"> is being deleted</span>}
        </h2>
        <Link to={addressOf(cluster, kind, String(back))}>All {plain(kind.plural, 80)}</Link>
        {thing && (
          // A dialog is about the object that was there when it was opened: it goes when the name has another one.
          <Actions
            key={thing.metadata.uid}
            cluster={cluster}
            ask={ask}
            kind={kind}
            kinds={kinds}
            of={thing}
            changed={() => void got.refetch()}
          />
        )}
      </div>
      {got.error && !thing ? (
        <Failed failure={failureOf(got.error)} again={() => void got.refetch()} />
      ) : null}
      {got.isPending && <Waiting what={`the ${plain(kind.kind, 80)}`} />}
      {thing && <Stale of={fresh} again={() => void got.refetch()} />}
      {thing && <Tabs names={names} />}
      {thing && (
        <div className={fresh.stale || fresh.failure ? 'explored stale' : 'explored'}>
          {tab === 'summary' && <Summary of={thing} secret={secret} />}
          {tab === 'yaml' && <Yaml of={thing} />}
          {tab === 'events' && <Events cluster={cluster} ask={ask} kind={kind} of={thing} />}
        </div>
      )}
      {thing && tab === 'logs' && pods !== undefined && (
        <PodLogs cluster={cluster} ask={ask} namespace={namespace} pods={pods} />
      )}
      {thing && tab === 'shell' && <Shells cluster={cluster} ask={ask} kind={kind} of={thing} />}
      {thing && tab === 'edit' && (
        <Edit cluster={cluster} ask={ask} kind={kind} of={thing} changed={() => void got.refetch()} />
      )}
    </>
  )
}

// A shell in one of a pod's containers, which the person chooses.
function Shells({ cluster, ask, kind, of }: { cluster: string; ask: Ask; kind: Kind; of: Thing }) {
  const [params, setParams] = useSearchParams()
  const { namespace = '', name = '' } = of.metadata
  const containers = listOf<{ name: string }>(of.spec?.containers).map((c) => c.name)
  const asked = params.get('container') ?? ''
  const container = containers.includes(asked) ? asked : (containers[0] ?? '')
  const right = useRight(cluster, ask, {
    verb: 'create',
    group: '',
    resource: 'pods',
    subresource: 'exec',
    namespace,
    name,
  })
  if (!right.allowed) return <div className="notice bad">{plain(right.reason, 400)}</div>
  return (
    <>
      {containers.length > 1 && (
        <select
          aria-label="Container"
          value={container}
          onChange={(e) => {
            const next = new URLSearchParams(params)
            next.set('container', e.target.value)
            setParams(next, { replace: true })
          }}
        >
          {containers.map((c) => (
            <option key={c} value={c}>
              {plain(c, 120)}
            </option>
          ))}
        </select>
      )}
      <Part what="the terminal">
        <Shell cluster={cluster} ask={ask} path={pathOf(kind, namespace, name)} container={container} />
      </Part>
    </>
  )
}

// A Secret is read as the row of a table: its type, how many values it has, and no value.
async function summaryOf(ask: Ask, path: string): Promise<Thing> {
  const table = await json<{
    columnDefinitions?: { name: string }[]
    rows?: { cells: unknown[] }[]
  }>(
    ask(`${path}?includeObject=None`, {
      headers: { Accept: 'application/json;as=Table;v=v1;g=meta.k8s.io' },
    }),
  )
  const cells = table.rows?.[0]?.cells ?? []
  const [namespace] = path.split('/').slice(4, 5)
  return {
    metadata: { name: String(cells[0] ?? ''), namespace: decodeURIComponent(namespace ?? '') },
    status: Object.fromEntries((table.columnDefinitions ?? []).map((c, i) => [c.name, cells[i]])),
  }
}

// A controller may write anything into the fields of a condition.
type Condition = Partial<Record<'type' | 'status' | 'reason' | 'message' | 'lastTransitionTime', unknown>>
const text = (of: unknown) => (of === undefined || of === null ? '' : String(of))

type ContainerStatus = {
  name?: string
  ready?: boolean
  restartCount?: number
  image?: string
  state?: Record<string, { reason?: string; message?: string; exitCode?: number; startedAt?: string }>
  lastState?: Record<string, { reason?: string; message?: string; exitCode?: number; finishedAt?: string }>
}

export function Summary({ of, secret }: { of: Thing; secret: boolean }) {
  const { metadata, status } = of
  const conditions = listOf<Condition>(status?.conditions)
  const containers = [
    ...listOf<ContainerStatus>(status?.initContainerStatuses),
    ...listOf<ContainerStatus>(status?.containerStatuses),
  ]
  return (
    <>
      <section className="panel">
        <dl>
          {!secret && (
            <>
              <dt>Created</dt>
              <dd>
                <Since of={metadata.creationTimestamp} />
              </dd>
            </>
          )}
          {metadata.ownerReferences?.map((o) => (
            <Pair key={`${o.kind}/${o.name}`} name="Owned by" value={`${o.kind} ${o.name}`} />
          ))}
          {metadata.finalizers?.map((f) => (
            <Pair key={f} name="Finalizer" value={f} />
          ))}
          {Object.entries(metadata.labels ?? {}).map(([k, v]) => (
            <Pair key={k} name={`Label ${k}`} value={v} />
          ))}
          {secret &&
            Object.entries(status ?? {}).map(([k, v]) => <Pair key={k} name={k} value={String(v ?? '')} />)}
          {!secret &&
            Object.entries(status ?? {})
              .filter(([, v]) => typeof v === 'string' || typeof v === 'number' || typeof v === 'boolean')
              .map(([k, v]) => <Pair key={k} name={k} value={String(v)} />)}
        </dl>
        {secret && <p className="quiet">Values of Secrets are not shown here: use kubectl.</p>}
      </section>
      {containers.length > 0 && (
        <section className="panel">
          <h3>Containers</h3>
          <ul className="lines">
            {containers.map((c) => (
              <li key={c.name}>
                <strong>{plain(c.name ?? '', 120)}</strong> {c.ready ? 'ready' : 'not ready'},{' '}
                {amount(c.restartCount ?? 0, 'restart')}, {plain(c.image ?? '', 300)}
                {statesOf(c).map((s) => (
                  <div key={s} className="quiet">
                    {plain(s, 1000)}
                  </div>
                ))}
              </li>
            ))}
          </ul>
        </section>
      )}
      {conditions.length > 0 && <Conditions of={conditions} name={metadata.name ?? ''} />}
    </>
  )
}

function Conditions({ of, name }: { of: Condition[]; name: string }) {
  return (
    <>
      <Export
        name={`${name}-conditions`}
        columns={['condition', 'status', 'since', 'reason', 'message']}
        rows={of.map((c) => ({
          condition: text(c.type),
          status: text(c.status),
          since: text(c.lastTransitionTime),
          reason: text(c.reason),
          message: text(c.message),
        }))}
      />
      <div className="table-wrap">
        <table>
          <thead>
            <tr>
              <th scope="col">Condition</th>
              <th scope="col">Status</th>
              <th scope="col">Since</th>
              <th scope="col">Why</th>
            </tr>
          </thead>
          <tbody>
            {of.map((c) => (
              <tr key={text(c.type)}>
                <td className="name">{plain(text(c.type), 120)}</td>
                <td>{plain(text(c.status), 40)}</td>
                <td>{text(c.lastTransitionTime) && <Since of={text(c.lastTransitionTime)} />}</td>
                <td>{plain(`${text(c.reason)} ${text(c.message)}`.trim(), 1000)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  )
}

function Pair({ name, value }: { name: string; value: string }) {
  return (
    <>
      <dt>{plain(name, 200)}</dt>
      <dd>{plain(value, 400)}</dd>
    </>
  )
}

// A status is what a controller wrote: a list may be anything.
const listOf = <T,>(of: unknown): T[] =>
  Array.isArray(of) ? (of as T[]).filter((o) => o && typeof o === 'object') : []

function statesOf(c: ContainerStatus): string[] {
  const words = (prefix: string, of: ContainerStatus['state']) =>
    Object.entries(of ?? {}).map(
      ([k, s]) =>
        `${prefix}${k}${s?.reason ? `: ${s.reason}` : ''}${s?.exitCode !== undefined ? `, exit ${s.exitCode}` : ''}${s?.message ? `, ${s.message}` : ''}`,
    )
  return [...words('', c.state), ...words('before: ', c.lastState as ContainerStatus['state'])]
}

// YAML of more than this is cut, and the cut is said.
const mostYaml = 1 << 20

function Yaml({ of }: { of: Thing }) {
  const managers = of.metadata.managedFields ?? []
  const text = toYaml(withoutManagers(of))
  return (
    <section className="panel">
      {managers.length > 0 && (
        <Opened name="managers" summary={`${managers.length} managers of fields`}>
          <ul className="lines">
            {managers.map((m, i) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: a manager may be there several times, and the list is drawn whole
              <li key={i}>
                {plain(m.manager ?? '', 200)} {plain(m.operation ?? '', 40)} {plain(m.subresource ?? '', 60)}{' '}
                {m.time && <Since of={m.time} />}
              </li>
            ))}
          </ul>
        </Opened>
      )}
      <pre>{plain(text, mostYaml)}</pre>
    </section>
  )
}

export function withoutManagers(of: Thing): Thing {
  const { managedFields: _, ...metadata } = of.metadata
  return { ...of, metadata }
}

function Events({ cluster, ask, kind, of }: { cluster: string; ask: Ask; kind: Kind; of: Thing }) {
  const { namespace = '', name = '', uid } = of.metadata
  const got = useQuery({
    queryKey: ['events', cluster, kind.kind, namespace, name, uid],
    refetchInterval: every,
    queryFn: () => {
      const fieldSelector = `involvedObject.kind=${kind.kind},involvedObject.name=${name}`
      const query = new URLSearchParams({ fieldSelector, limit: '500' })
      // Events of what is in no namespace are in this one.
      return json<{ items?: ClusterEvent[] }>(
        ask(`/api/v1/namespaces/${encodeURIComponent(namespace || 'default')}/events?${query}`),
      )
    },
  })
  const fresh = useFreshness([got])
  if (got.error && !got.data)
    return <Failed failure={failureOf(got.error)} again={() => void got.refetch()} />
  if (!got.data) return <Waiting what="events" />
  // An object of before that had the same name has another uid.
  const mine = (got.data.items ?? []).filter((e) => !e.involvedObject?.uid || e.involvedObject.uid === uid)
  return (
    <>
      {got.error && <Stale of={fresh} again={() => void got.refetch()} />}
      <div className={got.error ? 'stale' : ''}>
        <EventTable events={newestFirst(mine)} file={`${name}-events`} />
      </div>
    </>
  )
}
