import { useState } from 'react'

// Lists of the hub go on behind a token, so a page back is one that was seen before.
export function usePages(of: string) {
  const [at, setAt] = useState<{ of: string; tokens: string[] }>({ of, tokens: [''] })
  const tokens = at.of === of ? at.tokens : ['']
  return {
    token: tokens[tokens.length - 1] ?? '',
    number: tokens.length,
    next: (token: string) => setAt({ of, tokens: [...tokens, token] }),
    back: () => setAt({ of, tokens: tokens.slice(0, -1) }),
  }
}

export function Pager({
  pages,
  next,
  size,
  total,
}: {
  pages: ReturnType<typeof usePages>
  next: string
  size: number
  total: number | undefined
}) {
  const pageCount = total === undefined ? undefined : Math.max(1, Math.ceil(total / size))
  if (pages.number === 1 && next === '') return null
  return (
    <nav className="pager" aria-label="Pages of the list">
      <button type="button" disabled={pages.number === 1} onClick={pages.back}>
        Back
      </button>
      <span>
        Page {pages.number}
        {pageCount ? ` of ${pageCount}` : ''}
      </span>
      <button type="button" disabled={next === ''} onClick={() => pages.next(next)}>
        Next
      </button>
    </nav>
  )
}
