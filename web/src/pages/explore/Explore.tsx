import { useQuery } from '@tanstack/react-query'
import { useEffect, useMemo, useRef, useSyncExternalStore } from 'react'
import { Link, Navigate, useParams, useSearchParams } from 'react-router'
import { addressOf, discover, type Kind, pathOf, sectioned } from '../../cluster/kinds'
import { type Ask, askOf, json } from '../../cluster/request'
import { pageSize, type Row, Watched } from '../../cluster/table'
import { failureOf } from '../../hub/errors'
import { clock } from '../../live/ages'
import { useFreshness } from '../../live/asked'
import { Since } from '../../live/Since'
import { put, useChange } from '../../ui/address'
import { Export } from '../../ui/Export'
import { HeldSays } from '../../ui/HeldSays'
import { useHeld } from '../../ui/held'
import { Pager, usePages } from '../../ui/Pager'
import { Failed, Title, Waiting } from '../../ui/Panel'
import { Search } from '../../ui/Search'
import { plain } from '../../ui/text'
import { Thing } from './Thing'

// The objects of a cluster, asked of its API server through the tunnel, as the person.
export default function Explore() {
  const { name = '', '*': rest = '' } = useParams()
  const [params] = useSearchParams()
  const ask = useMemo(() => askOf(name), [name])
  const kinds = useQuery({
    queryKey: ['kinds', name],
    queryFn: () => discover(ask),
    staleTime: 300_000,
    refetchInterval: false,
  })
  const [group = 'core', , plural = 'pods'] = rest.split('/').filter(Boolean)
  const kind = kinds.data?.find((k) => (k.group || 'core') === group && k.plural === plural)
  const object = params.get('obj') ?? ''
  // Other pages know the kind of an object, and not its plural.
  const [named = '', ...ofGroup] = (params.get('kind') ?? '').split('.')
  const meant = kinds.data?.find((k) => named !== '' && k.kind === named && k.group === ofGroup.join('.'))
  if (meant) {
    const next = new URLSearchParams(params)
    next.delete('kind')
    return <Navigate replace to={addressOf(name, meant, String(next))} />
  }
  return (
    <>
      <div className="head">
        <Title tab={`${plain(kind?.kind ?? plural, 80)} · ${name}`}>
          <Link to={`/cluster/${name}`}>{plain(name, 80)}</Link> {kind ? plain(kind.kind, 80) : ''}
        </Title>
        <span className="end quiet">
          <code>
            fairlead kubectl {name} -- get {kind ? plain(kind.plural, 80) : 'pods'}
          </code>
        </span>
      </div>
      {kinds.error && !kinds.data ? (
        <Failed failure={failureOf(kinds.error)} again={() => void kinds.refetch()} />
      ) : null}
      {kinds.isPending && <Waiting what="the kinds of the cluster" />}
      {kinds.data && (
        <div className="explore">
          <Kinds cluster={name} all={kinds.data} current={kind} />
          <div className="explored">
            {!kind ? (
              <p>
                The cluster has no kind {plain(plural, 80)} of {plain(group, 80)}, or you may not know of it.
              </p>
            ) : object ? (
              <Thing
                key={`${name} ${rest} ${object}`}
                cluster={name}
                ask={ask}
                kind={kind}
                kinds={kinds.data}
                at={object}
              />
            ) : (
              <Things key={`${name} ${rest}`} ask={ask} kind={kind} cluster={name} />
            )}
          </div>
        </div>
      )}
    </>
  )
}

function Kinds({ cluster, all, current }: { cluster: string; all: Kind[]; current: Kind | undefined }) {
  const [params] = useSearchParams()
  const find = params.get('kinds') ?? ''
  const ns = params.get('ns')
  const kept = (k: Kind) =>
    String(
      new URLSearchParams({
        ...(ns && k.namespaced ? { ns } : {}),
        ...(find ? { kinds: find } : {}),
      }),
    )
  const word = find.trim().toLowerCase()
  const fitting = all.filter((k) =>
    [k.kind.toLowerCase(), k.plural, k.group, ...k.short].some((t) => t.includes(word)),
  )
  return (
    <nav className="kinds panel" aria-label="Kinds">
      <Search name="kinds" label="Find a kind" hint="kind or group" apart />
      {sectioned(fitting).map((s) => (
        <section key={s.name}>
          <h2>{plain(s.name, 80)}</h2>
          {s.kinds.map((k) => (
            <Link
              key={`${k.group}/${k.plural}`}
              to={addressOf(cluster, k, kept(k))}
              aria-current={k === current ? 'page' : undefined}
              title={`${plain(k.plural, 80)} ${plain(k.group, 80)} ${plain(k.version, 40)}`}
            >
              {plain(k.kind, 80)}
            </Link>
          ))}
        </section>
      ))}
      {fitting.length === 0 && <p className="quiet">No kind fits.</p>}
    </nav>
  )
}

// Values of Secrets stay in the cluster: not even annotations are asked for, because kubectl keeps a copy of the values there.
export const isSecret = (k: Kind) => k.group === '' && k.plural === 'secrets'

function Things({ cluster, ask, kind }: { cluster: string; ask: Ask; kind: Kind }) {
  const [params] = useSearchParams()
  const change = useChange()
  const ns = kind.namespaced ? (params.get('ns') ?? '') : ''
  const q = (params.get('q') ?? '').trim()
  const selector = /[=!]|\b(not)?in\b/.test(q) ? q : ''
  const pages = usePages(`${kind.group}/${kind.plural}\n${ns}\n${selector}`, 'rows')
  const { token } = pages
  const list = useMemo(
    () =>
      new Watched(
        ask,
        pathOf(kind, ns),
        { ...(selector ? { labelSelector: selector } : {}), ...(token ? { continue: token } : {}) },
        isSecret(kind) ? 'None' : 'Metadata',
        kind.verbs.includes('watch'),
      ),
    [ask, kind, ns, selector, token],
  )
  const nameless = isSecret(kind) && ns === '' // rows would say no namespace
  const shown = useSyncExternalStore(nameless ? none : list.subscribe, list.snapshot)
  useEffect(() => {
    const look = () => list.rest(document.visibilityState === 'hidden')
    document.addEventListener('visibilitychange', look)
    return () => document.removeEventListener('visibilitychange', look)
  }, [list])
  // A list that is followed is of now.
  const fresh = useFreshness([
    { dataUpdatedAt: shown.live ? Number.POSITIVE_INFINITY : shown.asOf, error: shown.failure },
  ])
  const words = selector ? [] : q.toLowerCase().split(/\s+/).filter(Boolean)
  const fitting = shown.rows.filter((r) => {
    const text = `${r.metadata.namespace ?? ''} ${r.cells.join(' ')}`.toLowerCase()
    return words.every((w) => text.includes(w))
  })
  const held = useHeld(shown.asOf > 0 ? `${ns}\n${q}\n${token}` : '', fitting, (r) => r.key)
  const { rows } = held
  const columns = shown.columns.map((c, i) => ({ ...c, i })).filter((c) => c.priority === 0)
  const spaced = kind.namespaced && ns === ''
  const stale = fresh.stale || fresh.failure !== undefined
  const open = (r: Row) => {
    const next = new URLSearchParams(params)
    next.set(
      'obj',
      r.metadata.namespace || ns ? `${r.metadata.namespace ?? ns}/${r.metadata.name}` : `${r.metadata.name}`,
    )
    return `?${next}`
  }
  return (
    <>
      <div className="actions">
        {kind.namespaced && (
          <Namespace
            cluster={cluster}
            ask={ask}
            value={ns}
            choose={(chosen) => change((to) => put(to, 'ns', chosen))}
          />
        )}
        <Search hint="words of the rows, or labels: app=web" />
        <Export
          name={`${cluster}-${kind.plural}`}
          columns={[...(spaced ? ['Namespace'] : []), ...columns.map((c) => c.name)]}
          rows={rows.map((r) => ({
            Namespace: r.metadata.namespace ?? '',
            ...Object.fromEntries(columns.map((c) => [c.name, String(r.cells[c.i] ?? '')])),
          }))}
        />
      </div>
      {nameless ? (
        <p>Choose a namespace to see the names of its Secrets. Their values are for kubectl.</p>
      ) : (
        <p className="quiet" role="status">
          {shown.asOf > 0 && (
            <>
              {rows.length === shown.rows.length ? rows.length : `${rows.length} of ${shown.rows.length}`}{' '}
              shown
              {shown.remaining ? `, about ${shown.remaining} more follow` : ''}
              {shown.more > 0 ? `, ${shown.more} new ones beyond this page` : ''}
              {words.length > 0 && shown.next ? '; words are looked for on this page only' : ''} ·{' '}
              {shown.live ? 'live' : `as of ${clock(shown.asOf)}`}
            </>
          )}
        </p>
      )}
      {shown.failure !== undefined && !nameless && (
        <Failed failure={failureOf(shown.failure)} again={list.again} />
      )}
      {shown.asOf === 0 && shown.failure === undefined && !nameless && (
        <p className="quiet" role="status">
          Asking {plain(cluster, 80)} for its {plain(kind.plural, 80)}…
        </p>
      )}
      {shown.asOf > 0 && rows.length === 0 && (
        <p>{q ? 'Nothing fits.' : `There is no ${plain(kind.kind, 80)} here.`}</p>
      )}
      {rows.length > 0 && (
        <div ref={held.ref}>
          <div className={stale ? 'table-wrap stale' : 'table-wrap'}>
            <table>
              <thead>
                <tr>
                  {spaced && <th scope="col">Namespace</th>}
                  {columns.map((c) => (
                    <th key={c.i} scope="col" title={plain(c.description, 400)}>
                      {plain(c.name, 80)}
                    </th>
                  ))}
                </tr>
              </thead>
              <tbody>
                {rows.map((r) => (
                  <tr key={r.key} className={held.waiting?.gone.has(r.key) ? 'stale' : undefined}>
                    {spaced && <td>{plain(r.metadata.namespace ?? '', 80)}</td>}
                    {columns.map((c, i) => (
                      <td key={c.i} className={i === 0 ? 'name' : undefined}>
                        {i === 0 ? (
                          <Link to={open(r)}>{plain(r.metadata.name ?? '', 260)}</Link>
                        ) : c.name === 'Age' && r.metadata.creationTimestamp ? (
                          <Since of={r.metadata.creationTimestamp} />
                        ) : (
                          plain(String(r.cells[c.i] ?? ''), 300)
                        )}
                        {i === 0 && r.metadata.deletionTimestamp && (
                          <div className="cause">is being deleted</div>
                        )}
                      </td>
                    ))}
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
          <HeldSays {...held} />
        </div>
      )}
      <Pager pages={pages} next={shown.next} size={pageSize} total={undefined} />
    </>
  )
}

const none = () => () => undefined

// Which namespace: any name may be typed, because a person may see objects of one without the right to list them all.
function Namespace({
  cluster,
  ask,
  value,
  choose,
}: {
  cluster: string
  ask: Ask
  value: string
  choose: (ns: string) => void
}) {
  const names = useQuery({
    queryKey: ['namespaces', cluster],
    queryFn: async () => {
      const list = await json<{ items?: { metadata?: { name?: string } }[] }>(
        ask('/api/v1/namespaces?limit=1000', {
          headers: {
            Accept: 'application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json',
          },
        }),
      )
      return (list.items ?? []).map((i) => i.metadata?.name ?? '')
    },
    staleTime: 30_000,
    refetchInterval: false,
  })
  // What was typed before the names were known counts when they are.
  const input = useRef<HTMLInputElement>(null)
  useEffect(() => {
    const typed = input.current?.value.trim()
    if (typed && typed !== value && names.data?.includes(typed)) choose(typed)
  }, [names.data, value, choose])
  return (
    <>
      <input
        key={value}
        ref={input}
        list="namespaces"
        aria-label="Namespace"
        placeholder="all namespaces"
        defaultValue={value}
        spellCheck={false}
        onChange={(e) => {
          const typed = e.target.value.trim()
          if (typed === '' || names.data?.includes(typed)) choose(typed)
        }}
        onKeyDown={(e) => {
          if (e.key === 'Enter') choose(e.currentTarget.value.trim())
        }}
      />
      <datalist id="namespaces">
        {names.data?.map((n) => (
          <option key={n} value={n} />
        ))}
      </datalist>
    </>
  )
}
