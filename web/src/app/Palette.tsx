import { useQuery } from '@connectrpc/connect-query'
import { useEffect, useRef, useState } from 'react'
import { useNavigate } from 'react-router'
import { ClusterService } from '../gen/fairlead/console/v1/cluster_service_pb'
import { ServiceService } from '../gen/fairlead/console/v1/service_service_pb'
import { SourceService } from '../gen/fairlead/console/v1/source_service_pb'
import { toFilter } from '../hub/filter'
import { stateOf } from '../state/states'
import { kinds } from '../ui/resources'
import { type Found, ranked } from './ranked'

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
  const [at, setAt] = useState(0)
  const [here] = useState(actions)
  const text = typed.trim()
  // A pasted commit leads to the services that are at it.
  const question = { filter: /^[\w.-]+$/.test(text) ? toFilter(text) : '', pageSize: 8 }
  const enabled = question.filter !== ''
  const options = { enabled, refetchInterval: false as const }
  const services = useQuery(
    ServiceService.method.listServices,
    {
      ...question,
      orderBy: 'state desc, name',
      readMask: { paths: ['metadata.name', 'spec.cluster', 'status.state'] },
    },
    options,
  )
  const clusters = useQuery(
    ClusterService.method.listClusters,
    { ...question, readMask: { paths: ['metadata.name'] } },
    options,
  )
  const sources = useQuery(
    SourceService.method.listSources,
    { ...question, readMask: { paths: ['metadata.name'] } },
    options,
  )
  const found = ranked(text, [
    ...places,
    ...(enabled
      ? [
          ...(services.data?.services ?? []).map((s) => ({
            name: s.metadata?.name ?? '',
            to: `/service/${s.metadata?.name}`,
            what: `service on ${s.spec?.cluster || 'the hub'}, ${stateOf(s.status?.state)}`,
          })),
          ...(clusters.data?.clusters ?? []).map((c) => ({
            name: c.metadata?.name ?? '',
            to: `/cluster/${c.metadata?.name}`,
            what: 'cluster',
          })),
          ...(sources.data?.sources ?? []).map((s) => ({
            name: s.metadata?.name ?? '',
            to: `/source/${s.metadata?.name}`,
            what: 'source',
          })),
        ]
      : []),
    ...here,
    ...makes,
  ])
  const chosen = Math.min(at, found.length - 1)
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
        placeholder="service, cluster, source, page, action"
        spellCheck={false}
        value={typed}
        onChange={(e) => {
          setTyped(e.target.value)
          setAt(0)
        }}
        onKeyDown={(e) => {
          const one = found[chosen]
          if (e.key === 'ArrowDown') setAt(Math.min(found.length - 1, chosen + 1))
          else if (e.key === 'ArrowUp') setAt(Math.max(0, chosen - 1))
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
            {f.name} <span className="quiet">{f.what}</span>
          </div>
        ))}
        {found.length === 0 && <p className="quiet">Nothing has this name.</p>}
      </div>
    </>
  )
}
