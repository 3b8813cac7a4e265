import { Code, ConnectError } from '@connectrpc/connect'

export type Failure = { message: string; code: string; signedOut: boolean; away: boolean }

// The hub's sentence says what is wrong and what to do. Only where no hub answered are the words ours.
export function failureOf(error: unknown): Failure {
  const failed = ConnectError.from(error)
  const away =
    failed.code === Code.Unavailable || failed.code === Code.DeadlineExceeded || error instanceof TypeError
  let message = failed.rawMessage
  if (error instanceof TypeError || /failed to fetch|networkerror|load failed/i.test(message)) {
    message = 'The hub does not answer. Its address, the network or a proxy in between may be down.'
  }
  return {
    message,
    code: Code[failed.code] ?? 'Unknown',
    signedOut: failed.code === Code.Unauthenticated,
    away,
  }
}
