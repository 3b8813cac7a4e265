import { useEffect, useLayoutEffect, useRef, useState } from 'react'
import type { Complete, YamlEditor } from '../heavy/yaml'
import { Waiting } from './Panel'

type At = { line: number; message: string }

const nothing: Complete = (_, offset) => ({ from: offset, words: [], after: '' })
const none: At[] = []

// An editor of YAML, which is loaded when it is first shown. Where that fails, a plain field takes what is typed.
export function Yaml({
  text,
  changed,
  problems = none,
  complete = nothing,
  editor,
}: {
  text: string
  changed: (text: string) => void
  problems?: At[]
  complete?: Complete
  // Given the editor, for those who lead to a line of it.
  editor?: (of: YamlEditor | undefined) => void
}) {
  const at = useRef<HTMLDivElement>(null)
  const [made, setMade] = useState<YamlEditor>()
  const [plain, setPlain] = useState(false)
  const latest = useRef({ text, changed, complete, editor })
  latest.current = { text, changed, complete, editor }
  useEffect(() => {
    let gone = false
    let own: YamlEditor | undefined
    import('../heavy/yaml').then(
      ({ yamlIn }) => {
        if (gone || !at.current) return
        own = yamlIn(at.current, {
          text: latest.current.text,
          changed: (typed) => latest.current.changed(typed),
          complete: (typed, offset) => latest.current.complete(typed, offset),
        })
        setMade(own)
        latest.current.editor?.(own)
      },
      () => !gone && setPlain(true),
    )
    return () => {
      gone = true
      latest.current.editor?.(undefined)
      own?.destroy()
    }
  }, [])
  // Before the next key counts: a text of before it would undo what is typed meanwhile.
  useLayoutEffect(() => made?.setText(text), [made, text])
  useEffect(() => made?.show(problems), [made, problems])
  return (
    <div className="editor">
      {!made && !plain && <Waiting what="the editor" />}
      {plain && (
        <textarea
          value={text}
          aria-label="YAML"
          spellCheck={false}
          autoCapitalize="off"
          wrap="off"
          rows={24}
          onChange={(e) => changed(e.target.value)}
        />
      )}
      <div ref={at} />
    </div>
  )
}
