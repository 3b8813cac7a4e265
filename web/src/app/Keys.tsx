import { useEffect, useRef } from 'react'
import { useNavigate } from 'react-router'
import { carried, type Neighbours, neighbourOf } from './neighbours'
import { isTaken } from './taken'
import { Version } from './Version'

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

const rowLinks = () => [...document.querySelectorAll<HTMLAnchorElement>('main tbody td.name a')]

// The keys of every page. None of them changes anything, and none counts while a person types.
export function useKeys() {
  const navigate = useNavigate()
  const help = useRef<HTMLDialogElement>(null)
  // The list that a person came from, in its order. It outlives the page that shows it, and with it the handlers below.
  const list = useRef<Neighbours>([])
  useEffect(() => {
    let leader = -Infinity // when g was pressed
    const leave = (e: MouseEvent) => {
      const links = rowLinks()
      const at = (e.target as HTMLElement).closest?.('a')
      if (at && links.includes(at)) list.current = links.map((a) => a.pathname)
    }
    const press = (e: KeyboardEvent) => {
      if (!isTaken(e, document)) return
      const to = pages[e.key]
      if (e.timeStamp - leader < 1000 && to) {
        leader = -Infinity
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
      } else if (e.key === 'J' || e.key === 'K') {
        const next = neighbourOf(list.current, window.location.pathname, e.key === 'J' ? 1 : -1)
        if (next) navigate(next + carried(window.location.search))
      } else if (e.key === '.') {
        document.querySelector<HTMLElement>('main [data-waiting]')?.click()
      } else if (e.key === 'o') {
        document.querySelector<HTMLElement>('main [data-actions] :is(a, button:enabled)')?.focus()
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
    document.addEventListener('click', leave, true)
    return () => {
      document.removeEventListener('keydown', press)
      document.removeEventListener('click', leave, true)
    }
  }, [navigate])
  return help
}

// Goes to the next row of the list on the page.
function step(by: number) {
  const rows = rowLinks()
  const row = document.activeElement?.closest('main tr')
  const at = rows.findIndex((a) => a.closest('tr') === row)
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
        <dd>go to any page or thing by name, or to an action of this page</dd>
        <dt>
          <kbd>j</kbd> <kbd>k</kbd>
        </dt>
        <dd>next and previous row; Enter opens it</dd>
        <dt>
          <kbd>J</kbd> <kbd>K</kbd>
        </dt>
        <dd>next and previous thing of the list that you came from</dd>
        <dt>
          <kbd>o</kbd>
        </dt>
        <dd>go to the actions of what is shown</dd>
        <dt>
          <kbd>.</kbd>
        </dt>
        <dd>show what waits: lines of a paused log, rows of a list that stays in place</dd>
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
      <p>
        <Version />
      </p>
      <form method="dialog">
        <button type="submit">Close</button>
      </form>
    </dialog>
  )
}
