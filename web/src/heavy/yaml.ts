import { autocompletion, type CompletionContext, completionKeymap } from '@codemirror/autocomplete'
import { defaultKeymap, history, historyKeymap } from '@codemirror/commands'
import { yaml } from '@codemirror/lang-yaml'
import { HighlightStyle, indentOnInput, syntaxHighlighting } from '@codemirror/language'
import { linter, lintGutter, setDiagnostics } from '@codemirror/lint'
import { EditorState } from '@codemirror/state'
import { EditorView, highlightActiveLine, keymap, lineNumbers } from '@codemirror/view'
import { tags } from '@lezer/highlight'
import { withSheets } from './sheets'

// What could come at a place of the text: words, where in the text they begin, and what stands behind the one that is taken.
export type Complete = (text: string, offset: number) => { from: number; words: string[]; after: string }

export type YamlEditor = {
  setText: (text: string) => void
  // Problems stand at their lines; those without a line are told elsewhere.
  show: (problems: { line: number; message: string }[]) => void
  goTo: (line: number) => void
  destroy: () => void
}

// An editor of YAML by CodeMirror in an element. Pages load it where they show one. The tab key leaves it, as it leaves every field.
export function yamlIn(
  at: HTMLElement,
  options: { text: string; changed: (text: string) => void; complete: Complete },
): YamlEditor {
  const view = withSheets(
    () =>
      new EditorView({
        parent: at,
        state: EditorState.create({
          doc: options.text,
          extensions: [
            lineNumbers(),
            lintGutter(),
            linter(null),
            history(),
            indentOnInput(),
            highlightActiveLine(),
            yaml(),
            syntaxHighlighting(ink),
            autocompletion({ override: [completions(options.complete)] }),
            keymap.of([...completionKeymap, ...defaultKeymap, ...historyKeymap]),
            // What is edited is reached by the tab key anyway; that it is, tools see by its index only.
            EditorView.contentAttributes.of({ 'aria-label': 'YAML', tabindex: '0' }),
            EditorView.updateListener.of((u) => {
              if (u.docChanged) options.changed(u.state.doc.toString())
            }),
            look,
          ],
        }),
      }),
  )
  return {
    setText(text) {
      const { doc } = view.state
      if (doc.length === text.length && doc.toString() === text) return
      view.dispatch({ changes: { from: 0, to: doc.length, insert: text } })
    },
    show(problems) {
      const { doc } = view.state
      const placed = problems.flatMap(({ line, message }) => {
        if (line < 1 || line > doc.lines) return []
        const { from, to, text } = doc.line(line)
        return [
          { from: from + (text.length - text.trimStart().length), to, message, severity: 'error' as const },
        ]
      })
      view.dispatch(setDiagnostics(view.state, placed))
    },
    goTo(line) {
      const { doc } = view.state
      const { from } = doc.line(Math.min(Math.max(1, line), doc.lines))
      view.dispatch({
        selection: { anchor: from },
        effects: EditorView.scrollIntoView(from, { y: 'center' }),
      })
      view.focus()
    },
    destroy: () => view.destroy(),
  }
}

// Characters of a text in which words are completed: it is read whole for each.
const mostRead = 1 << 18

function completions(complete: Complete) {
  return (context: CompletionContext) => {
    if (context.state.doc.length > mostRead) return null
    const { from, words, after } = complete(context.state.doc.toString(), context.pos)
    if (words.length === 0 || (from === context.pos && !context.explicit)) return null
    return { from, options: words.map((w) => ({ label: w, apply: `${w}${after}` })), validFor: /^[\w-]*$/ }
  }
}

// Colour says a state elsewhere in the pages: text is ink here, too.
const ink = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], fontWeight: '600' },
  { tag: [tags.comment, tags.lineComment], color: 'var(--text-2)', fontStyle: 'italic' },
  { tag: tags.meta, color: 'var(--text-2)' },
])

const look = EditorView.theme({
  '&': { background: 'var(--surface)', color: 'var(--text)', fontSize: '12px', maxHeight: '80vh' },
  '&.cm-focused': { outline: '2px solid var(--focus)', outlineOffset: '1px' },
  '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '18px', overflow: 'auto' },
  '.cm-content, .cm-gutter': { minHeight: '288px' },
  '.cm-content': { caretColor: 'var(--text)' },
  '.cm-gutters': { background: 'var(--sunken)', color: 'var(--text-2)', border: 'none' },
  '.cm-activeLine, .cm-activeLineGutter': { background: 'var(--select)' },
  '.cm-lintRange-error': { backgroundImage: 'none', textDecoration: 'underline wavy var(--failed)' },
  '.cm-lint-marker-error': { content: 'none' },
  '.cm-lint-marker-error::after': { content: '"✕"', color: 'var(--failed)', fontSize: '12px' },
  '.cm-tooltip': { background: 'var(--surface)', color: 'var(--text)', border: '1px solid var(--line)' },
  '.cm-tooltip-autocomplete > ul > li[aria-selected]': { background: 'var(--select)', color: 'var(--text)' },
  '.cm-diagnostic-error': { borderLeft: '4px solid var(--failed)' },
})
