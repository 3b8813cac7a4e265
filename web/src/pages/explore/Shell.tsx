import { FitAddon } from '@xterm/addon-fit'
import { useEffect, useRef, useState } from 'react'
import { Exec } from '../../cluster/exec'
import type { Ask } from '../../cluster/request'
import { terminalIn } from '../../heavy/terminal'
import { plain } from '../../ui/text'

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
    const terminal = terminalIn(at)
    const fit = new FitAddon()
    terminal.loadAddon(fit)
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
