import { timestampMs } from '@bufbuild/protobuf/wkt'
import type { Event } from '../gen/fairlead/console/v1/event_service_pb'
import { useHubNow } from './asked'

const hour = 3_600_000

// Those of the last hour. The stream tells of new events, and not of those that have become older than the filter wants.
export function useLastHour(events: Event[] | undefined): Event[] {
  const since = useHubNow() - hour
  return events?.filter((e) => e.time && timestampMs(e.time) > since) ?? []
}
