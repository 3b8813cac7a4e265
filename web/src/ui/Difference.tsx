import { useEffect, useRef, useState } from 'react'
import { flushSync } from 'react-dom'
import { plain } from './text'

// More of a difference is not shown in a page.
const most = 1 << 20

// What stands above a difference: the names of both sides, which its page has said.
const names = /^(diff .*\n)?--- .*\n\+\+\+ .*\n/

// A difference as `diff` writes it. What draws it is loaded when one is first shown; until then, and where that fails, it is plain text.
export function Difference({ text }: { text: string }) {
  const at = useRef<HTMLDivElement>(null)
  const [drawn, setDrawn] = useState(false)
  const shown = plain(text.replace(names, '').trimEnd(), most)
  useEffect(() => {
    let gone = false
    let end: (() => void) | undefined
    import('../heavy/diff').then(
      ({ diffIn }) => {
        if (gone || !at.current) return
        flushSync(() => setDrawn(true)) // the plain text goes before: it is never there twice
        end = diffIn(at.current, shown)
      },
      () => undefined,
    )
    return () => {
      gone = true
      end?.()
      setDrawn(false)
    }
  }, [shown])
  return (
    <div className="editor">
      {!drawn && <pre className="diff">{shown.slice(0, 100_000)}</pre>}
      <div ref={at} />
    </div>
  )
}
