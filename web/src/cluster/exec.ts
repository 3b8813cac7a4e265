import { ConnectError } from '@connectrpc/connect'
import { type Ask, at } from './request'

// The channels of v5.channel.k8s.io: the first byte of each message.
const stdin = 0
const stdout = 1
const stderr = 2
const result = 3
const resize = 4

// A paste is sent in pieces, because a proxy in between may cut a large message.
const piece = 16 << 10
// A shell that is only looked at stays: proxies end connections that are silent.
const keepAlive = 25_000

export type Ends = { onOutput: (bytes: Uint8Array) => void; onEnd: (words: string) => void }

// A command in a container, with a terminal. The session's cookie opens the socket, and the hub looks at its Origin.
export class Exec {
  private readonly socket: WebSocket
  private size = { Width: 80, Height: 24 }
  private opened = false
  private words = ''
  private readonly timer: ReturnType<typeof setInterval>

  constructor(
    private readonly ask: Ask,
    cluster: string,
    private readonly path: string,
    private readonly ends: Ends,
    open = (url: string) => new WebSocket(url, ['v5.channel.k8s.io', 'v4.channel.k8s.io']),
  ) {
    this.socket = open(`wss://${window.location.host}${at(cluster, path)}`)
    this.socket.binaryType = 'arraybuffer'
    this.socket.onopen = () => {
      this.opened = true
      this.tellSize()
    }
    this.socket.onmessage = (e: MessageEvent<ArrayBuffer>) => this.take(new Uint8Array(e.data))
    this.socket.onclose = () => void this.over()
    this.timer = setInterval(() => this.tellSize(), keepAlive)
  }

  type(text: string) {
    const bytes = new TextEncoder().encode(text)
    for (let i = 0; i < bytes.length; i += piece) this.send(stdin, bytes.subarray(i, i + piece))
  }

  resize(Width: number, Height: number) {
    this.size = { Width, Height }
    this.tellSize()
  }

  end() {
    this.socket.onclose = null
    clearInterval(this.timer)
    this.socket.close()
  }

  private tellSize() {
    this.send(resize, new TextEncoder().encode(JSON.stringify(this.size)))
  }

  private send(channel: number, bytes: Uint8Array) {
    if (this.socket.readyState !== WebSocket.OPEN) return
    const message = new Uint8Array(bytes.length + 1)
    message[0] = channel
    message.set(bytes, 1)
    this.socket.send(message)
  }

  private take(message: Uint8Array) {
    const rest = message.subarray(1)
    if (message[0] === stdout || message[0] === stderr) this.ends.onOutput(rest)
    if (message[0] === result) this.words = outcome(new TextDecoder().decode(rest))
  }

  // A browser does not say why a socket was refused, so the same is asked for without one.
  private async over() {
    clearInterval(this.timer)
    if (this.words || this.opened) return this.ends.onEnd(this.words || 'The connection was cut.')
    try {
      await this.ask(this.path)
      this.ends.onEnd('No socket could be opened.')
    } catch (e) {
      const { rawMessage } = ConnectError.from(e)
      this.ends.onEnd(
        /upgrade/i.test(rawMessage)
          ? 'No socket could be opened: a proxy in front of the hub may let no WebSocket pass.'
          : rawMessage,
      )
    }
  }
}

export function outcome(text: string): string {
  try {
    const status = JSON.parse(text) as {
      status?: string
      message?: string
      details?: { causes?: { reason?: string; message?: string }[] }
    }
    if (status.status === 'Success') return 'The command has ended.'
    const code = status.details?.causes?.find((c) => c.reason === 'ExitCode')?.message
    return code ? `The command has ended with exit code ${code}.` : (status.message ?? text)
  } catch {
    return text
  }
}
