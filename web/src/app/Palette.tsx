import { useQuery } from '@connectrpc/connect-query'
import { keepPreviousData, useQuery as useAnswer } from '@tanstack/react-query'
import { useEffect, useRef, useState } from 'react'
import { useLocation, useNavigate } from 'react-router'
import { discover } from '../cluster/kinds'
import { askOf } from '../cluster/request'
import { LiveService } from '../gen/fairlead/console/v1/live_service_pb'
import { failureOf } from '../hub/errors'
import { kinds } from '../ui/resources'
import { plain } from '../ui/text'
import { foundAt, kindsAt } from './found'
import { type Found, mostFound, ranked } from './ranked'

const places: Found[] = [
  ['Fleet', '/'],
  ['Services', '/services'],
  ['Clusters', '/clusters'],
  ['Join a cluster', '/join'],
  ['Sources', '/sources'],
  ['Global services', '/globalservices'],
  ['Configuration', '/config'],
  ['Access', '/access'],
  ['Activity', '/activity'],
  ['Audit trail', '/activity?tab=audit'],
  ['Hub', '/hub'],
  ['You', '/me'],
].map(([name, to]) => ({ name: name ?? '', to: to ?? '', what: 'page' }))

const makes: Found[] = kinds.map((k) => ({
  name: `New ${k.name}`,
  to: `/apply?kind=${k.name}`,
  what: 'action',
}))

// Actions of the page below: each asks before it does anything.
const actions = (): Found[] =>
  [...document.querySelectorAll<HTMLElement>('main [data-actions] :is(a, button:enabled)')]
    .filter((e) => e.ariaDisabled !== 'true' && !e.closest('dialog'))
    .map((e, i) => ({
      name: e.textContent ?? '',
      to: `#action-${i}`,
      what: 'on this page',
      act: () => e.click(),
    }))

// Ctrl-K goes to anything by name.
export function Palette() {
  const dialog = useRef<HTMLDialogElement>(null)
  const [open, setOpen] = useState(false)
  useEffect(() => {
    const press = (e: KeyboardEvent) => {
      if (
        e.key.toLowerCase() !== 'k' ||
        !(e.ctrlKey || e.metaKey) ||
        e.altKey ||
        document.querySelector('dialog[open]')
      )
        return
      e.preventDefault()
      setOpen(true)
      dialog.current?.showModal()
    }
    document.addEventListener('keydown', press)
    return () => document.removeEventListener('keydown', press)
  }, [])
  return (
    <dialog ref={dialog} className="palette" aria-label="Go to" onClose={() => setOpen(false)}>
      {open && <Choices close={() => dialog.current?.close()} />}
    </dialog>
  )
}

function Choices({ close }: { close: () => void }) {
  const navigate = useNavigate()
  const [typed, setTyped] = useState('')
  const [at, setAt] = useState('') // which one is chosen: others may come before it
  const [here] = useState(actions)
  const text = typed.trim()
  const got = useQuery(
    LiveService.method.search,
    { text, limit: mostFound },
    { enabled: text !== '', refetchInterval: false as const, placeholderData: keepPreviousData },
  )
  const cluster = /^\/cluster\/([^/]+)/.exec(useLocation().pathname)?.[1] ?? ''
  // Of the cluster that is open. Without an answer of it there are none.
  const inCluster = useAnswer({
    queryKey: ['kinds', cluster],
    queryFn: () => discover(askOf(cluster)),
    enabled: cluster !== '',
    staleTime: 300_000,
    refetchInterval: false,
    retry: false,
  })
  // Until the hub has answered, of what it found before only those count whose name fits.
  const answered = text !== '' && !got.isPlaceholderData
  const hits = text === '' ? [] : (got.data?.results ?? []).flatMap((r) => foundAt(r, answered))
  const found = ranked(text, [
    ...places,
    ...hits,
    ...here,
    ...kindsAt(cluster, inCluster.data ?? []),
    ...makes,
  ])
  const more = answered ? (got.data?.totalSize ?? 0) - found.filter((f) => f.searched).length : 0
  const chosen = Math.max(
    0,
    found.findIndex((f) => f.to === at),
  )
  const choose = (i: number) => setAt(found[Math.min(Math.max(i, 0), found.length - 1)]?.to ?? '')
  const go = (found: Found) => {
    close()
    if (found.act) found.act()
    else navigate(found.to)
  }
  return (
    <>
      <input
        // biome-ignore lint/a11y/noAutofocus: the person has just asked for it
        autoFocus
        role="combobox"
        aria-expanded="true"
        aria-controls="found"
        aria-activedescendant={found[chosen] ? `found-${chosen}` : undefined}
        aria-label="Name of a page or a thing"
        placeholder="name, label, commit, page, action"
        spellCheck={false}
        value={typed}
        onChange={(e) => {
          setTyped(e.target.value)
          setAt('')
        }}
        onKeyDown={(e) => {
          const one = found[chosen]
          if (e.key === 'ArrowDown') choose(chosen + 1)
          else if (e.key === 'ArrowUp') choose(chosen - 1)
          else if (e.key === 'Enter' && one) go(one)
          else return
          e.preventDefault()
        }}
      />
      <div id="found" role="listbox" aria-label="Found" className="lines">
        {found.map((f, i) => (
          <div
            key={f.to}
            id={`found-${i}`}
            role="option"
            aria-selected={i === chosen}
            tabIndex={-1}
            onMouseDown={(e) => {
              e.preventDefault()
              go(f)
            }}
          >
            {plain(f.name, 120)} <span className="quiet">{plain(f.what, 200)}</span>
          </div>
        ))}
        {found.length === 0 && !got.isFetching && !got.error && (
          <p className="quiet">
            Nothing that you may see fits: names, labels, places and commits were looked at.
          </p>
        )}
        {got.isFetching && <p className="quiet">Asking the hub…</p>}
        {got.error && text !== '' && (
          <p className="cause">Pages and actions only: {plain(failureOf(got.error).message, 300)}</p>
        )}
        {more > 0 && <p className="quiet">{more.toLocaleString()} more: type another word of it.</p>}
      </div>
    </>
  )
}
