import { createConnectTransport } from '@connectrpc/connect-web'
import { withoutUnknownFields } from './masks'

// Every call goes to the host that the page came from. The session's cookie goes with it; Connect's own header shows the hub that a
// page of its own asks.
export const transport = createConnectTransport({
  baseUrl: window.location.origin,
  useBinaryFormat: true,
  defaultTimeoutMs: 20_000,
  interceptors: [withoutUnknownFields()],
})
