import { Fragment } from 'react'
import { At } from '../live/At'
import { plain } from './text'
import { partsOf } from './times'

// A sentence of the hub, an agent or a cluster. Its times are in the zone of the person, with their ages.
export function Said({ of, max }: { of: string; max?: number }) {
  return partsOf(plain(of, max)).map((part, i) => {
    const key = `${i} ${part}`
    return part instanceof Date ? <At key={key} of={part} /> : <Fragment key={key}>{part}</Fragment>
  })
}
