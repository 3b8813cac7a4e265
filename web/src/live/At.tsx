import { type Timestamp, timestampDate } from '@bufbuild/protobuf/wkt'
import { localTime } from '../ui/times'
import { age, isTime } from './ages'
import { useHubNow } from './asked'

// When something was or will be, in the zone of the person, with how long ago or in how long that is. It stands in alerts, which are read aloud again with
// each change: the age is for the eyes only.
export function At({ of }: { of: Timestamp | Date | undefined }) {
  const now = useHubNow()
  if (!of) return null
  const date = of instanceof Date ? of : timestampDate(of)
  if (!isTime(date)) return <span>an unknown time</span>
  const left = date.getTime() - now
  return (
    <time dateTime={date.toISOString()} title={date.toISOString()}>
      {localTime(date)} <span aria-hidden="true">({left > 0 ? `in ${age(left)}` : `${age(-left)} ago`})</span>
    </time>
  )
}
