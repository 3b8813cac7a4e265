import { useState } from 'react'
import { Link, useSearchParams } from 'react-router'
import { useChange } from '../../ui/address'
import { plain } from '../../ui/text'
import { columns, flip, titles } from './columns'

type View = { name: string; query: string }

const stored = 'views.services'

function saved(): View[] {
  try {
    const list: unknown = JSON.parse(localStorage.getItem(stored) ?? '[]')
    return Array.isArray(list)
      ? list.filter((v) => typeof v?.name === 'string' && typeof v?.query === 'string').slice(0, 50)
      : []
  } catch {
    return []
  }
}

const ours: View[] = [
  { name: 'Needs a person', query: 'q=state+%3E%3D+waiting' },
  { name: 'Held', query: 'q=state+%3D+held' },
  { name: 'Changed in the last hour', query: 'q=state_since+%3E+1h&sort=state_since+desc' },
]

// A view is a named address of this browser: filter, order and columns.
export function Views() {
  const [params] = useSearchParams()
  const [views, setViews] = useState(saved)
  const [naming, setNaming] = useState(false)
  const query = String(params)
  const keep = (next: View[]) => {
    localStorage.setItem(stored, JSON.stringify(next))
    setViews(next)
  }
  const mine = views.find((v) => v.query === query)
  return (
    <nav className="actions" aria-label="Views">
      {[...ours, ...views].map((v) => (
        <Link
          key={v.name}
          to={`?${v.query}`}
          aria-current={v.query === query ? 'page' : undefined}
          className="chip"
        >
          {plain(v.name, 60)}
        </Link>
      ))}
      {query !== '' && (
        <Link to="/services" className="chip">
          All
        </Link>
      )}
      {mine && (
        <button type="button" className="chip" onClick={() => keep(views.filter((v) => v !== mine))}>
          Forget this view
        </button>
      )}
      {!mine && query !== '' && !naming && (
        <button type="button" className="chip" onClick={() => setNaming(true)}>
          Save as a view
        </button>
      )}
      {naming && (
        <form
          className="actions"
          onSubmit={(e) => {
            e.preventDefault()
            const name = String(new FormData(e.currentTarget).get('name')).trim()
            keep([...views.filter((v) => v.name !== name), { name, query }])
            setNaming(false)
          }}
        >
          <input
            name="name"
            required
            maxLength={60}
            aria-label="Name of the view"
            placeholder="name of the view"
          />
          <button type="submit">Save</button>
        </form>
      )}
    </nav>
  )
}

// Which columns there are is part of the address.
export function Columns({ shown }: { shown: ReadonlySet<string> }) {
  const change = useChange()
  return (
    <details className="menu">
      <summary>Columns</summary>
      <div>
        {columns.map((c) => (
          <label key={c}>
            <input
              type="checkbox"
              checked={shown.has(c)}
              onChange={(e) => change((to) => flip(to, c, e.target.checked), { replace: true })}
            />{' '}
            {titles[c]}
          </label>
        ))}
      </div>
    </details>
  )
}
