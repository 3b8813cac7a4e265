import { useQuery } from '@connectrpc/connect-query'
import { AdminService } from '../gen/fairlead/console/v1/admin_service_pb'

// Which version the hub has, and where traces are shown. Every page asks.
export const useHub = () =>
  useQuery(AdminService.method.getHub, {}, { refetchInterval: 60_000, staleTime: 30_000 })

// Besides how it is, for administrators.
export const useCondition = () =>
  useQuery(AdminService.method.getHub, { condition: true }, { refetchInterval: often })

// What a page that shows how the hub is asks again after.
export const often = 15_000

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
