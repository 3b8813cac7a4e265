import { useEffect, useRef, useState } from 'react'
import { useSearchParams } from 'react-router'
import { put, useChange } from './address'

// The filter of a list is part of the address. Typing replaces it there, so that one step back leaves the page. An address that was typed here
// may come back late: what was typed since stays.
export function Search({
  hint,
  name = 'q',
  label = 'Filter',
  apart = false,
}: {
  hint: string
  // Of the address.
  name?: string
  label?: string
  // Not the filter of the page: / leads to another one, and its pages stay.
  apart?: boolean
}) {
  const [params] = useSearchParams()
  const change = useChange()
  const q = params.get(name) ?? ''
  const [typed, setTyped] = useState(q)
  const ours = useRef<string[]>([])
  useEffect(() => {
    const at = ours.current.indexOf(q)
    ours.current = at < 0 ? [] : ours.current.slice(at + 1)
    if (at < 0) setTyped(q)
  }, [q])
  useEffect(() => {
    if (typed === q) return
    const wait = setTimeout(() => {
      ours.current.push(typed)
      change(
        (to) => {
          if (!apart) to.delete('page')
          put(to, name, typed)
        },
        { replace: true },
      )
    }, 120)
    return () => clearTimeout(wait)
  }, [typed, q, name, apart, change])
  return (
    <input
      type="search"
      data-search={apart ? undefined : ''}
      value={typed}
      placeholder={hint}
      aria-label={label}
      spellCheck={false}
      onChange={(e) => setTyped(e.target.value)}
    />
  )
}
