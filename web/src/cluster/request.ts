import { Code, ConnectError } from '@connectrpc/connect'
import { within } from '../hub/clock'

// The API server of a cluster answers below the address of the pages, as the person: the session's cookie goes with each request. Bytes come through
// the tunnel, never through the console.
export const at = (cluster: string, path: string) => `/clusters/${encodeURIComponent(cluster)}${path}`

export type Ask = (path: string, init?: RequestInit) => Promise<Response>

// An answer of an API server that is an error. details are those of Kubernetes.
export class Refused extends ConnectError {
  constructor(
    message: string,
    code: Code,
    readonly status: number,
  ) {
    super(message, code)
  }
}

const codes: Record<number, Code> = {
  400: Code.InvalidArgument,
  401: Code.Unauthenticated,
  403: Code.PermissionDenied,
  404: Code.NotFound,
  405: Code.Unimplemented,
  409: Code.Aborted,
  410: Code.OutOfRange,
  413: Code.ResourceExhausted,
  415: Code.Unimplemented,
  422: Code.InvalidArgument,
  429: Code.ResourceExhausted,
  500: Code.Internal,
  502: Code.Unavailable,
  503: Code.Unavailable,
  504: Code.Unavailable,
}

// What is read of an error at most: a page shows 4 KiB of it.
const mostError = 64 << 10
// An object or a page of a list. etcd holds 1.5 MiB of one object; a page of 500 rows has some 500 KiB.
const mostJson = 32 << 20

// How long the answer to a change may take. An API server ends a request after 60 s.
const mostChange = 70_000
const unheard =
  'No answer of the cluster came within 70 s. Whether it did what was asked is not known: look before you try again.'

export function askOf(cluster: string): Ask {
  return async (path, init = {}) => {
    const changes = init.method !== undefined && init.method !== 'GET'
    const send = (signal: AbortSignal | null | undefined) =>
      fetch(at(cluster, path), {
        ...init,
        ...(signal ? { signal } : {}),
        redirect: 'error',
        headers: {
          Accept: 'application/json',
          ...(changes ? { 'Fairlead-Csrf': '1' } : {}),
          ...init.headers,
        },
      })
    // Who waits for a change can do nothing else with the object meanwhile.
    const answer = await (changes && !init.signal
      ? within(mostChange, undefined, send, unheard)
      : send(init.signal))
    if (!answer.ok) throw await refusal(answer)
    return answer
  }
}

export async function refusal(answer: Response): Promise<Refused> {
  const code = codes[answer.status] ?? Code.Unknown
  const text = await read(answer, mostError).catch(() => '')
  try {
    const status = JSON.parse(text)
    if (typeof status.message === 'string') return new Refused(status.message, code, answer.status)
  } catch {
    // It is no Status.
  }
  if (answer.status === 404)
    return new Refused(
      'This address does not lead to clusters: the front or ingress of the hub has no route for /clusters/ to the tunnel. Use `fairlead kubectl` meanwhile.',
      Code.FailedPrecondition,
      404,
    )
  return new Refused(text.trim() || `The answer is ${answer.status}, without a word.`, code, answer.status)
}

// Reads a body up to a bound. Beyond it there is an error instead of a tab without memory.
export async function read(answer: Response, most: number): Promise<string> {
  if (!answer.body) return ''
  const reader = answer.body.getReader()
  const decoder = new TextDecoder()
  let text = ''
  let bytes = 0
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return text + decoder.decode()
    bytes += value.byteLength
    if (bytes > most) {
      void reader.cancel()
      throw new ConnectError(
        `The cluster answers with more than ${most >> 20} MiB, which no page can show. Use kubectl.`,
        Code.ResourceExhausted,
      )
    }
    text += decoder.decode(value, { stream: true })
  }
}

export async function json<T>(answer: Promise<Response>): Promise<T> {
  const text = await read(await answer, mostJson)
  try {
    return JSON.parse(text)
  } catch {
    throw new ConnectError('The cluster answers with something that is no JSON.', Code.DataLoss)
  }
}

// A line of a watch or a log, at most.
const mostLine = 4 << 20

// The lines of a stream. A line beyond the bound is cut, and its rest left out.
export async function* linesOf(body: ReadableStream<Uint8Array>, most = mostLine): AsyncGenerator<string> {
  const reader = body.getReader()
  const decoder = new TextDecoder()
  let rest = ''
  let skipping = false
  try {
    for (;;) {
      const { done, value } = await reader.read()
      const parts = (rest + (done ? decoder.decode() : decoder.decode(value, { stream: true }))).split('\n')
      rest = parts.pop() ?? ''
      for (const line of parts) {
        if (!skipping) yield line
        skipping = false
      }
      if (done) {
        if (rest !== '' && !skipping) yield rest
        return
      }
      if (rest.length > most) {
        if (!skipping) yield rest.slice(0, most)
        rest = ''
        skipping = true
      }
    }
  } finally {
    void reader.cancel().catch(() => undefined)
  }
}
