type Press = Pick<KeyboardEvent, 'ctrlKey' | 'metaKey' | 'altKey'> & { target: unknown }

const typed = 'input:not([type="checkbox"]), textarea, select, [contenteditable], dialog'

// Whether a key is one of the pages': none is while a person types, nor while a dialog is open, also when nothing in it has the focus.
export function isTaken(e: Press, page: Pick<ParentNode, 'querySelector'>): boolean {
  const at = e.target as Element
  return !(e.ctrlKey || e.metaKey || e.altKey || at.closest(typed) || page.querySelector('dialog[open]'))
}
