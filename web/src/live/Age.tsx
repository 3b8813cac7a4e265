import { type Timestamp, timestampDate } from '@bufbuild/protobuf/wkt'
import { age, isTime } from './ages'
import { useHubNow } from './asked'

// How long ago something was; the exact time comes with the pointer.
export function Age({ of }: { of: Timestamp | undefined }) {
  const now = useHubNow()
  if (!of) return <span className="quiet">never</span>
  const date = timestampDate(of)
  if (!isTime(date)) return <span className="quiet">unknown</span>
  return (
    <time dateTime={date.toISOString()} title={`${date.toLocaleString()} (${date.toISOString()})`}>
      {age(now - date.getTime())}
    </time>
  )
}
