import { useEffect, useMemo, useRef, useState, useSyncExternalStore } from 'react'
import { useSearchParams } from 'react-router'
import { moment } from '../live/ages'
import { put, useChange } from '../ui/address'
import { save } from '../ui/exported'
import { Search } from '../ui/Search'
import { plain } from '../ui/text'
import { type Container, type LogLine, Logs, mostContainers } from './logs'
import type { Ask } from './request'

const rowHeight = 18
const sinceChoices: [string, string][] = [
  ['0', 'the last 5,000 lines'],
  ['300', '5 minutes'],
  ['600', '10 minutes'],
  ['3600', 'an hour'],
  ['86400', 'a day'],
]

// The merged log of containers. Which of them, since when, what is searched and how lines are drawn stand in the address. A pause is of the tab: no other
// has its lines.
export function LogView({
  ask,
  name,
  containers,
  none,
}: {
  ask: Ask
  name: string
  containers: Container[]
  // What is said where there never was a container.
  none: string
}) {
  const [params] = useSearchParams()
  const change = useChange()
  const since = Number(params.get('since') ?? 0)
  const previous = params.get('prev') === '1'
  const only = params.get('pod') ?? ''
  const grep = params.get('grep') ?? ''
  const wrap = params.get('wrap') === '1'
  const times = params.get('times') !== '0'
  const set = (key: string, value: string) => change((to) => put(to, key, value), { replace: true })
  const chosen = useMemo(
    () => containers.filter((c) => only === '' || `${c.pod}/${c.container}` === only),
    [containers, only],
  )
  // biome-ignore lint/correctness/useExhaustiveDependencies: what a person chooses is another log, pods that come and go are of the same one
  const logs = useMemo(() => new Logs(ask, { since, previous }), [ask, only, since, previous])
  useEffect(() => logs.follow(chosen), [logs, chosen])
  useEffect(() => () => logs.end(), [logs])
  const version = useSyncExternalStore(logs.subscribe, logs.snapshot)
  const [frozen, setFrozen] = useState<{ lines: LogLine[]; total: number }>()
  // A pause is of the log that it was made in.
  const choose = (key: string, value: string) => {
    setFrozen(undefined)
    set(key, value)
  }
  const total = logs.dropped + logs.lines.length
  const matcher = useMemo(() => matcherOf(grep), [grep])
  const fits = useMemo(() => matcher && ((l: LogLine) => l.note || matcher(l.text)), [matcher])
  useEffect(() => logs.find(fits), [logs, fits])
  const still = useMemo(() => (fits ? frozen?.lines.filter(fits) : frozen?.lines), [frozen, fits])
  const lines = still ?? logs.found
  const { several } = logs
  const line = (l: LogLine, time: (text: string) => string) =>
    `${l.time && times ? `${time(l.time)} ` : ''}${several ? `${l.from} ` : ''}${l.text}`
  // A file may be read elsewhere: its times are in UTC. On the page they are the person's.
  const text = (l: LogLine) => line(l, moment)
  const filed = (l: LogLine) => line(l, (time) => `${time.slice(0, 23)}Z`)
  if (containers.length === 0 && total === 0) return <p>{none}</p>
  return (
    <section className="panel logs" aria-label="Log">
      <div className="actions">
        <select aria-label="Container" value={only} onChange={(e) => choose('pod', e.target.value)}>
          <option value="">
            {containers.length === 1 ? 'the container' : `all ${containers.length} containers`}
          </option>
          {only !== '' && chosen.length === 0 && (
            <option value={only}>{plain(only, 200)}, which is gone</option>
          )}
          {containers.map((c) => (
            <option key={`${c.pod}/${c.container}`} value={`${c.pod}/${c.container}`}>
              {plain(`${c.pod}/${c.container}`, 200)}
            </option>
          ))}
        </select>
        <select
          aria-label="Since"
          value={String(since)}
          onChange={(e) => choose('since', e.target.value === '0' ? '' : e.target.value)}
        >
          {sinceChoices.map(([value, words]) => (
            <option key={value} value={value}>
              {words}
            </option>
          ))}
        </select>
        <label>
          <input
            type="checkbox"
            checked={previous}
            onChange={(e) => choose('prev', e.target.checked ? '1' : '')}
          />{' '}
          before the restart
        </label>
        <Search name="grep" label="Find in the log" hint="words, or /expression/" />
        <button
          type="button"
          aria-pressed={frozen !== undefined}
          data-waiting={frozen ? '' : undefined}
          onClick={() => setFrozen(frozen ? undefined : { lines: [...logs.lines], total })}
        >
          {frozen ? `Paused, ${Math.max(0, total - frozen.total).toLocaleString()} new` : 'Pause'}
        </button>
        <label>
          <input type="checkbox" checked={wrap} onChange={(e) => set('wrap', e.target.checked ? '1' : '')} />{' '}
          wrap
        </label>
        <label>
          <input
            type="checkbox"
            checked={times}
            onChange={(e) => set('times', e.target.checked ? '' : '0')}
          />{' '}
          <span title="in your time zone; in UTC in a download">times</span>
        </label>
        <button
          type="button"
          disabled={lines.length === 0}
          onClick={() =>
            save(`${name.replace(/[^\w.-]+/g, '-')}.log`, `${lines.map(filed).join('\n')}\n`, 'text/plain')
          }
        >
          Download
        </button>
      </div>
      <p className="quiet" role="status" aria-live="off">
        {lines.length.toLocaleString()} of {total.toLocaleString()} lines
        {logs.dropped > 0 && `, the first ${logs.dropped.toLocaleString()} made room for later ones`}
        {chosen.length > mostContainers &&
          `; ${mostContainers} of ${chosen.length} containers are read: choose one`}
        {matcher === undefined && grep !== '' && '; the expression is not complete'}
      </p>
      <Lines lines={lines} version={version} text={text} wrap={wrap} follow={frozen === undefined} />
    </section>
  )
}

// Words are looked for as they are; what stands between slashes is an expression.
export function matcherOf(grep: string): ((text: string) => boolean) | undefined {
  if (grep === '') return undefined
  const expression = /^\/(.+)\/$/.exec(grep)?.[1]
  if (expression === undefined) {
    const words = grep.toLowerCase()
    return (text) => text.toLowerCase().includes(words)
  }
  try {
    const compiled = new RegExp(expression, 'i')
    return (text) => compiled.test(text)
  } catch {
    return undefined
  }
}

// Lines that wrap have no height that could be known beforehand: fewer of them are drawn, the newest.
const mostWrapped = 2000

// Draws the lines that are seen, and stays at the end while the person is there.
function Lines({
  lines,
  version,
  text,
  wrap,
  follow,
}: {
  lines: LogLine[]
  version: number // of the lines, which are changed in place
  text: (l: LogLine) => string
  wrap: boolean
  follow: boolean
}) {
  const box = useRef<HTMLElement>(null)
  const [top, setTop] = useState(0)
  const [height, setHeight] = useState(480)
  const atEnd = useRef(true)
  useEffect(() => {
    const at = box.current
    if (!at) return
    const watch = new ResizeObserver(() => setHeight(at.clientHeight))
    watch.observe(at)
    return () => watch.disconnect()
  }, [])
  // biome-ignore lint/correctness/useExhaustiveDependencies: each new line is followed
  useEffect(() => {
    const at = box.current
    if (at && follow && atEnd.current) at.scrollTop = at.scrollHeight
  }, [lines, version, follow, wrap])
  const first = wrap ? Math.max(0, lines.length - mostWrapped) : Math.max(0, Math.floor(top / rowHeight) - 20)
  const last = wrap ? lines.length : Math.min(lines.length, first + Math.ceil(height / rowHeight) + 40)
  return (
    <section
      ref={box}
      className="log-lines"
      aria-label="Lines"
      // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reached by keyboard
      tabIndex={0}
      onScroll={(e) => {
        const at = e.currentTarget
        atEnd.current = at.scrollTop + at.clientHeight >= at.scrollHeight - rowHeight
        setTop(at.scrollTop)
      }}
    >
      <pre
        className={wrap ? 'wrapped' : undefined}
        style={wrap ? undefined : { paddingTop: first * rowHeight, height: lines.length * rowHeight }}
      >
        {lines.slice(first, last).map((l, i) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: a line has no other name than its place
          <div key={first + i} className={l.note ? 'note' : undefined}>
            {l.note ? `-- ${plain(text(l), 1000)} --` : plain(text(l), 64 << 10) || ' '}
          </div>
        ))}
      </pre>
    </section>
  )
}
