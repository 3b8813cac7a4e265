// On a phone a table has no headings: numbers and ids say what they are.
const telling = /^[\d≥–-]/

export function labelCells(root: ParentNode) {
  for (const table of root.querySelectorAll('table')) {
    const titles = [...table.querySelectorAll('thead th')].map(
      (th) => th.textContent?.replace(/ [↑↓]$/, '') ?? '',
    )
    if (titles.length === 0) continue
    for (const row of table.querySelectorAll<HTMLTableRowElement>('tbody tr')) {
      for (const [i, cell] of [...row.cells].entries()) {
        const text = cell.textContent ?? ''
        const title = titles[i] ?? ''
        const wants =
          text !== '' &&
          !cell.classList.contains('name') &&
          (telling.test(text) || cell.querySelector('.mono') !== null)
        if (wants && title !== '') {
          if (cell.dataset.label !== title) cell.dataset.label = title
        } else if (cell.dataset.label !== undefined && !cell.classList.contains('number'))
          delete cell.dataset.label
      }
    }
  }
}

// Labels cells as they come, while the window is as narrow as a phone.
export function labelOnPhones(root: HTMLElement): () => void {
  const narrow = window.matchMedia('(max-width: 640px)')
  let frame = 0
  const later = () => {
    frame ||= requestAnimationFrame(() => {
      frame = 0
      labelCells(root)
    })
  }
  const watch = new MutationObserver(later)
  const look = () => {
    watch.disconnect()
    if (!narrow.matches) return
    watch.observe(root, { childList: true, subtree: true, characterData: true })
    later()
  }
  look()
  narrow.addEventListener('change', look)
  return () => {
    watch.disconnect()
    cancelAnimationFrame(frame)
    narrow.removeEventListener('change', look)
  }
}
