import { age } from './ages'
import { useHubNow } from './asked'

// How long ago something was, by a time as Kubernetes writes it.
export function Since({ of }: { of: string | undefined }) {
  const now = useHubNow()
  const time = Date.parse(of ?? '')
  if (Number.isNaN(time)) return <span className="quiet">never</span>
  const date = new Date(time)
  return (
    <time dateTime={date.toISOString()} title={`${date.toLocaleString()} (${date.toISOString()})`}>
      {age(now - time)}
    </time>
  )
}
