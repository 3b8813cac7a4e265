import { EditorState, RangeSetBuilder, Text } from '@codemirror/state'
import { Decoration, EditorView } from '@codemirror/view'
import { withSheets } from './sheets'

const kinds: Record<string, Decoration> = {
  '+': Decoration.line({ class: 'cm-added' }),
  '-': Decoration.line({ class: 'cm-removed' }),
  '@': Decoration.line({ class: 'cm-place' }),
}

// Shows a difference as `diff` writes it. Of a long one only what is in view is drawn.
export function diffIn(at: HTMLElement, text: string): () => void {
  const doc = Text.of(text.split('\n'))
  const extensions = [
    EditorState.readOnly.of(true),
    EditorView.editable.of(false),
    EditorView.contentAttributes.of({ 'aria-label': 'Difference', 'aria-readonly': 'true', tabindex: '0' }),
    EditorView.decorations.of(marks(doc)),
    look,
  ]
  const view = withSheets(
    () => new EditorView({ parent: at, state: EditorState.create({ doc, extensions }) }),
  )
  return () => view.destroy()
}

// The sign says what became of a line; its ground says it once more.
export function marks(doc: Text) {
  const builder = new RangeSetBuilder<Decoration>()
  for (let n = 1; n <= doc.lines; n++) {
    const { from, text } = doc.line(n)
    const kind = kinds[text[0] ?? '']
    if (kind && !/^(\+\+\+|---) /.test(text)) builder.add(from, from, kind)
  }
  return builder.finish()
}

const look = EditorView.theme({
  '&': { background: 'var(--surface)', color: 'var(--text)', fontSize: '12px', maxHeight: '60vh' },
  '&.cm-focused': { outline: '2px solid var(--focus)', outlineOffset: '1px' },
  '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '18px', overflow: 'auto' },
  '.cm-added': { background: 'var(--select)', fontWeight: '600' },
  '.cm-removed': { background: 'var(--sunken)', color: 'var(--text-2)' },
  '.cm-place': { color: 'var(--text-2)' },
})
