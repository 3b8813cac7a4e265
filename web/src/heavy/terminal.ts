import { Terminal } from '@xterm/xterm'
import '@xterm/xterm/css/xterm.css'

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
  openIn(terminal, at)
  return terminal
}

// xterm.js writes style elements and style attributes, which the policy of the pages forbids. The same rules as sheets and properties of the
// document's model are allowed, so the terminal gets a document that makes these.
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

// The scroll bar asks the window's own document, while the terminal is opened.
function openIn(terminal: Terminal, at: HTMLElement) {
  const create = document.createElement.bind(document)
  document.createElement = ((name: string) => made(create, name)) as typeof document.createElement
  try {
    terminal.open(at)
  } finally {
    delete (document as { createElement?: unknown }).createElement // the prototype's is there again
  }
}

function made(create: (name: string) => HTMLElement, name: string): HTMLElement {
  if (name !== 'style') {
    const element = create(name)
    const setAttribute = element.setAttribute.bind(element)
    element.setAttribute = (key, value) => {
      if (key === 'style') element.style.cssText = value
      else setAttribute(key, value)
    }
    return element
  }
  const element = create('template') // shows nothing
  const sheet = new CSSStyleSheet()
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet]
  Object.defineProperty(element, 'textContent', { set: (text: string) => sheet.replaceSync(text) })
  element.remove = () => {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((s) => s !== sheet)
    Element.prototype.remove.call(element)
  }
  return element
}
