import { useSearchParams } from 'react-router'

// A heading that sorts at the hub. The order is part of the address.
export function Column({ title, field, first }: { title: string; field: string; first: string }) {
  const [params, setParams] = useSearchParams()
  const sort = params.get('sort') ?? first
  const [by, desc] = (sort.split(',')[0] ?? '').trim().split(' ')
  const mine = by === field
  const next = mine && !desc ? `${field} desc` : field
  return (
    <th aria-sort={mine ? (desc ? 'descending' : 'ascending') : 'none'} scope="col">
      <button
        type="button"
        onClick={() =>
          setParams((before) => {
            const to = new URLSearchParams(before)
            to.set('sort', next)
            return to
          })
        }
      >
        {title}
        {mine ? (desc ? ' ↓' : ' ↑') : ''}
      </button>
    </th>
  )
}
