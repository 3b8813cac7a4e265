import { type Timestamp, timestampDate } from '@bufbuild/protobuf/wkt'
import { age, isTime, shortTime } from './ages'
import { useHubNow } from './asked'

// When something happened, in the zone of the person, with its age beside: by a time of the hub, or one as Kubernetes writes it.
export function When({ of }: { of: Timestamp | string | undefined }) {
  const now = useHubNow()
  if (!of) return <span className="quiet">never</span>
  const date = typeof of === 'string' ? new Date(of) : timestampDate(of)
  if (!isTime(date)) return <span className="quiet">unknown</span>
  return (
    <time
      className="when"
      dateTime={date.toISOString()}
      title={`${date.toLocaleString()} (${date.toISOString()})`}
    >
      {shortTime(date, now)} <span className="quiet">{age(now - date.getTime())}</span>
    </time>
  )
}
