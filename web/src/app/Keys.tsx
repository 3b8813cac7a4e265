import { useEffect, useRef } from 'react'
import { useNavigate } from 'react-router'

const pages: Record<string, string> = {
  f: '/',
  s: '/services',
  c: '/clusters',
  o: '/sources',
  a: '/activity',
  h: '/hub',
}

// Tabs of the page that have a key.
const tabs: Record<string, string> = { l: 'logs', d: 'diff', y: 'yaml', e: 'events', s: 'shell' }

const tabLinks = () => document.querySelectorAll<HTMLAnchorElement>('main nav.tabs a')
const tabOf = (a: HTMLAnchorElement) => new URL(a.href).searchParams.get('tab')

function neighbour(by: number): HTMLAnchorElement | undefined {
  const links = [...tabLinks()]
  return links[links.findIndex((a) => a.ariaCurrent === 'page') + by]
}

// The box that chooses the row with the focus.
const chosen = () =>
  document.activeElement?.closest('main tr')?.querySelector<HTMLInputElement>('input[type="checkbox"]')

// The keys of every page. None of them changes anything, and none counts while a person types.
export function useKeys() {
  const navigate = useNavigate()
  const help = useRef<HTMLDialogElement>(null)
  useEffect(() => {
    let leader = 0
    const press = (e: KeyboardEvent) => {
      const at = e.target as HTMLElement
      if (
        e.ctrlKey ||
        e.metaKey ||
        e.altKey ||
        at.closest('input, textarea, select, [contenteditable], dialog')
      )
        return
      const to = pages[e.key]
      if (e.timeStamp - leader < 1000 && to) {
        leader = 0
        navigate(to)
      } else if (e.key === 'g') {
        leader = e.timeStamp
      } else if (e.key === '/') {
        e.preventDefault()
        document.querySelector<HTMLInputElement>('[data-search]')?.focus()
      } else if (e.key === '?') {
        help.current?.showModal()
      } else if (e.key === 'j' || e.key === 'k') {
        step(e.key === 'j' ? 1 : -1)
      } else if (e.key === 'x') {
        chosen()?.click()
      } else if (e.key === '[' || e.key === ']') {
        neighbour(e.key === ']' ? 1 : -1)?.click()
      } else {
        const wanted = tabs[e.key]
        if (wanted) [...tabLinks()].find((a) => tabOf(a) === wanted)?.click()
      }
    }
    document.addEventListener('keydown', press)
    return () => document.removeEventListener('keydown', press)
  }, [navigate])
  return help
}

// Goes to the next row of the list on the page.
function step(by: number) {
  const rows = [...document.querySelectorAll<HTMLElement>('main tbody td.name a')]
  const at = rows.indexOf(document.activeElement as HTMLElement)
  rows[Math.min(rows.length - 1, Math.max(0, at + by))]?.focus()
}

export function Keys({ help }: { help: React.RefObject<HTMLDialogElement | null> }) {
  return (
    <dialog ref={help} aria-label="Keys">
      <h2>Keys</h2>
      <dl>
        <dt>
          <kbd>/</kbd>
        </dt>
        <dd>go to the filter</dd>
        <dt>
          <kbd>g</kbd> then <kbd>f s c o a h</kbd>
        </dt>
        <dd>Fleet, Services, Clusters, Sources, Activity, Hub</dd>
        <dt>
          <kbd>Ctrl</kbd> <kbd>K</kbd>
        </dt>
        <dd>go to any page or thing by name</dd>
        <dt>
          <kbd>j</kbd> <kbd>k</kbd>
        </dt>
        <dd>next and previous row; Enter opens it</dd>
        <dt>
          <kbd>x</kbd>
        </dt>
        <dd>choose the row, where several can be chosen</dd>
        <dt>
          <kbd>[</kbd> <kbd>]</kbd>
        </dt>
        <dd>previous and next tab of the page</dd>
        <dt>
          <kbd>l</kbd> <kbd>d</kbd> <kbd>y</kbd> <kbd>e</kbd> <kbd>s</kbd>
        </dt>
        <dd>logs, diff, YAML, events, shell of what is shown</dd>
        <dt>
          <kbd>?</kbd>
        </dt>
        <dd>this list</dd>
      </dl>
      <form method="dialog">
        <button type="submit">Close</button>
      </form>
    </dialog>
  )
}
