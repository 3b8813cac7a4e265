import { FitAddon } from '@xterm/addon-fit'
import { Terminal } from '@xterm/xterm'
import { useEffect, useRef, useState } from 'react'
import { Exec } from '../../cluster/exec'
import type { Ask } from '../../cluster/request'
import { plain } from '../../ui/text'
import '@xterm/xterm/css/xterm.css'

// The best shell that the container has.
const command = ['/bin/sh', '-c', 'command -v bash >/dev/null 2>&1 && exec bash || exec sh']

// A shell in a container.
export default function Shell({
  cluster,
  ask,
  path,
  container,
}: {
  cluster: string
  ask: Ask
  path: string
  container: string
}) {
  const box = useRef<HTMLDivElement>(null)
  const [round, setRound] = useState(0)
  const [ended, setEnded] = useState('')
  // biome-ignore lint/correctness/useExhaustiveDependencies: each round begins a shell anew
  useEffect(() => {
    const at = box.current
    if (!at) return
    setEnded('')
    const terminal = new Terminal({
      documentOverride: withoutInlineStyles(),
      fontFamily: 'JetBrains Mono, ui-monospace, SFMono-Regular, Menlo, monospace',
      fontSize: 12,
      scrollback: 10_000,
      screenReaderMode: true,
      allowProposedApi: false,
      // A link that a program prints is text: what it leads to is not the hub's.
      linkHandler: { activate: () => undefined },
      theme: { background: '#0a0d10', foreground: '#e7ecf0' },
    })
    const fit = new FitAddon()
    terminal.loadAddon(fit)
    openIn(terminal, at)
    const query = new URLSearchParams({ container, stdin: 'true', stdout: 'true', tty: 'true' })
    for (const word of command) query.append('command', word)
    const exec = new Exec(ask, cluster, `${path}/exec?${query}`, {
      onOutput: (bytes) => terminal.write(bytes),
      onEnd: setEnded,
    })
    terminal.onData((text) => exec.type(text))
    terminal.onResize(({ cols, rows }) => exec.resize(cols, rows))
    fit.fit()
    exec.resize(terminal.cols, terminal.rows)
    terminal.focus()
    const watch = new ResizeObserver(() => fit.fit())
    watch.observe(at)
    return () => {
      watch.disconnect()
      exec.end()
      terminal.dispose()
    }
  }, [round, cluster, ask, path, container])
  return (
    <>
      {ended && (
        <div className="notice" role="status">
          {plain(ended, 1000)}{' '}
          <button type="button" onClick={() => setRound(round + 1)}>
            Begin anew
          </button>
        </div>
      )}
      <div ref={box} className="tty" />
    </>
  )
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
