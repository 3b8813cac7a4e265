import { Terminal } from '@xterm/xterm'
import '@xterm/xterm/css/xterm.css'
import { made, withSheets } from './sheets'

// A terminal of xterm.js in an element. Pages load it where they show one.
export function terminalIn(
  at: HTMLElement,
  options: { cols?: number; rows?: number; readOnly?: boolean } = {},
): Terminal {
  const { cols, rows, readOnly = false } = options
  const terminal = new Terminal({
    documentOverride: withoutInlineStyles(),
    fontFamily: 'JetBrains Mono, ui-monospace, SFMono-Regular, Menlo, monospace',
    fontSize: 12,
    scrollback: 10_000,
    screenReaderMode: true,
    allowProposedApi: false,
    disableStdin: readOnly,
    // A link that a program prints is text: what it leads to is not the hub's.
    linkHandler: { activate: () => undefined },
    theme: { background: '#0a0d10', foreground: '#e7ecf0' },
    ...(cols ? { cols } : {}),
    ...(rows ? { rows } : {}),
  })
  withSheets(() => terminal.open(at)) // the scroll bar asks the window's own document
  return terminal
}

// The terminal gets a document that makes no inline styles.
function withoutInlineStyles(): Document {
  return new Proxy(document, {
    get(of, key) {
      if (key === 'createElement') return (name: string) => made(of.createElement.bind(of), name)
      const value = Reflect.get(of, key)
      return typeof value === 'function' ? value.bind(of) : value
    },
    set: (of, key, value) => Reflect.set(of, key, value),
  })
}
