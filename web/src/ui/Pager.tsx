import { useRef } from 'react'
import { useSearchParams } from 'react-router'
import { put, useChange } from './address'
import { pageIn, pageText } from './paging'

// Lists of the hub go on behind a token. Which page is shown stands in the address, for the list that it is of: another filter or order begins with the
// first page. A page back is one that was seen before, or the first one.
export function usePages(of: string, name = '') {
  const [params] = useSearchParams()
  const change = useChange()
  const key = name ? `page.${name}` : 'page'
  const { number, token } = pageIn(params.get(key) ?? '', of)
  const seen = useRef<{ of: string; tokens: string[] }>({ of, tokens: [] })
  if (seen.current.of !== of) seen.current = { of, tokens: [] }
  seen.current.tokens[number - 1] = token
  const go = (number: number, token: string) =>
    change((to) => put(to, key, number <= 1 ? '' : pageText(of, number, token)))
  const before = seen.current.tokens[number - 2]
  return {
    token,
    number,
    next: (token: string) => go(number + 1, token),
    back: () => (before === undefined ? go(1, '') : go(number - 1, before)),
    // Of a page that was opened by its address the one before is not known.
    known: before !== undefined || number === 2,
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
        {pages.number === 1 || pages.known ? 'Back' : 'First page'}
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

// What stands in place of the rows of a page without any. A later page had some when its address was made: the way back stays below it.
export function Empty({ pages, children }: { pages: { number: number }; children: React.ReactNode }) {
  return pages.number > 1 ? <p>This page has no rows any more.</p> : children
}
