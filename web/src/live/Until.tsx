import { type Timestamp, timestampDate } from '@bufbuild/protobuf/wkt'
import { age, isTime } from './ages'
import { useHubNow } from './asked'

// In how long something is; the exact time comes with the pointer.
export function Until({ of, over, none }: { of: Timestamp | undefined; over: string; none: string }) {
  const now = useHubNow()
  if (!of) return <span className="quiet">{none}</span>
  const date = timestampDate(of)
  if (!isTime(date)) return <span className="quiet">unknown</span>
  const left = date.getTime() - now
  return (
    <time dateTime={date.toISOString()} title={`${date.toLocaleString()} (${date.toISOString()})`}>
      {left > 0 ? `in ${age(left)}` : over}
    </time>
  )
}
