import { Code, ConnectError } from '@connectrpc/connect'

export type Failure = { message: string; code: string; signedOut: boolean; away: boolean }

// What Connect says of an answer without an error of the hub: its status, or its type.
const foreign = /^(HTTP \d+)$|^unsupported content type (.*)$/

// The hub's sentence says what is wrong and what to do. Only where no hub answered are the words ours.
export function failureOf(error: unknown): Failure {
  const failed = ConnectError.from(error)
  // A call of Connect has a browser's error as one of an unknown code.
  const unheard =
    error instanceof TypeError || /failed to fetch|networkerror|load failed/i.test(failed.rawMessage)
  const code = unheard ? Code.Unavailable : failed.code
  const away = code === Code.Unavailable || code === Code.DeadlineExceeded
  return {
    message: unheard
      ? 'The hub does not answer. Its address, the network or a proxy in between may be down.'
      : ownWords(failed.rawMessage, away),
    code: Code[code] ?? 'Unknown',
    signedOut: code === Code.Unauthenticated,
    away,
  }
}

function ownWords(message: string, away: boolean): string {
  if (message === 'the operation timed out')
    return 'The hub has not answered in time. It may be busy, or the network slow.'
  const [, status, type] = foreign.exec(message) ?? []
  if (!status && !type) return message
  const cause = away
    ? 'The hub may be down or starting.'
    : 'It may need a login of its own, or a route to the hub.'
  return `A proxy answers in place of the hub: ${status ?? type}. ${cause}`
}

// A failure of a service that the console does not run. A proxy without a route to the service answers 404 without a word of the service.
export function failureAt(service: 'gitcache' | 'tunnel', error: unknown): Failure {
  const failure = failureOf(error)
  if (ConnectError.from(error).rawMessage !== 'HTTP 404') return failure
  return {
    ...failure,
    message: `This address does not lead to the ${service}: the front or ingress of the hub has no route for /fairlead.${service}.* to it.`,
  }
}

// There is no such thing, or no more, whatever was known of it before.
export const isMissing = (error: unknown) => error != null && failureOf(error).code === 'NotFound'
