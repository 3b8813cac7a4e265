import { useEffect, useRef, useState } from 'react'
import { useSearchParams } from 'react-router'
import { put, useChange } from './address'
import { chosenIn, chosenText } from './paging'

// What a person has chosen of a list. It stands in the address while it is short enough for one. An address that was made here may come back late: what
// was chosen since stays.
export function useChosen(): [ReadonlySet<string>, (names: ReadonlySet<string>) => void] {
  const [params] = useSearchParams()
  const change = useChange()
  const text = params.get('sel') ?? ''
  const [chosen, setChosen] = useState<ReadonlySet<string>>(() => new Set(chosenIn(text)))
  const ours = useRef<string[]>([text])
  useEffect(() => {
    const at = ours.current.indexOf(text)
    ours.current = at < 0 ? [] : ours.current.slice(at + 1)
    if (at < 0) setChosen(new Set(chosenIn(text)))
  }, [text])
  const choose = (names: ReadonlySet<string>) => {
    const next = chosenText(names) ?? ''
    setChosen(names)
    if (next !== text) ours.current.push(next)
    change((to) => put(to, 'sel', next), { replace: true })
  }
  return [chosen, choose]
}
