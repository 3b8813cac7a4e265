import { useSearchParams } from 'react-router'
import { useChange } from './address'

// A heading that sorts at the hub. The order is part of the address.
// most: the first click puts the largest first.
export function Column({
  title,
  field,
  first,
  most = false,
}: {
  title: string
  field: string
  first: string
  most?: boolean
}) {
  const [params] = useSearchParams()
  const change = useChange()
  const sort = params.get('sort') ?? first
  const [by, desc] = (sort.split(',')[0] ?? '').trim().split(' ')
  const mine = by === field
  const next = (mine ? !desc : most) ? `${field} desc` : field
  return (
    <th
      className={most ? 'number' : undefined}
      aria-sort={mine ? (desc ? 'descending' : 'ascending') : 'none'}
      scope="col"
    >
      <button type="button" onClick={() => change((to) => to.set('sort', next))}>
        {title}
        {mine ? (desc ? ' ↓' : ' ↑') : ''}
      </button>
    </th>
  )
}
