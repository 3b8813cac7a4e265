import { useQuery } from '@connectrpc/connect-query'
import { AdminService } from '../gen/fairlead/console/v1/admin_service_pb'

// Which version the hub has, where traces are shown, and how it is. Every page asks, so it is asked once a minute; a page that shows how the hub is
// asks more often.
export const useHub = (every = 60_000) =>
  useQuery(AdminService.method.getHub, {}, { refetchInterval: every, staleTime: every / 2 })

let mine = ''

// The version of this page: the one that its hub had when the page was loaded.
export function pageVersion(ofHub: string): string {
  mine ||= ofHub
  return mine
}

// The address of a trace. Only an id of a trace comes into it.
export function traceAddress(template: string, trace: string): string {
  if (!/^https?:\/\//.test(template) || !/^[0-9a-f]{32}$/.test(trace)) return ''
  return template.replaceAll('{trace}', trace)
}
