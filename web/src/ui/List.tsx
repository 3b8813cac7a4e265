import { failureOf } from '../hub/errors'
import { type Answered, useFreshness } from '../live/asked'
import { HeldSays } from './HeldSays'
import type { HeldRows } from './held'
import { Failed, Stale, Waiting } from './Panel'

type Asked = Answered & { data: unknown; isPending: boolean; refetch: () => unknown }

// The frame of every list: what is asked for, why it can't be had, how old it is, and that there is nothing.
export function List({
  what,
  of,
  count,
  held,
  nothing,
  children,
}: {
  what: string
  of: Asked
  count: number | undefined
  // Rows that stay in place while a person is among them.
  held?: Omit<HeldRows<unknown>, 'rows' | 'own'>
  nothing: React.ReactNode
  children: React.ReactNode
}) {
  const fresh = useFreshness([of])
  const again = () => void of.refetch()
  return (
    <>
      {of.error && !of.data ? <Failed failure={failureOf(of.error)} again={again} /> : null}
      {of.data ? <Stale of={fresh} again={again} /> : null}
      {of.isPending && <Waiting what={what} />}
      {count === 0 && nothing}
      {count !== undefined && count > 0 && (
        <div ref={held?.ref}>
          <div className={fresh.stale || fresh.failure ? 'table-wrap stale' : 'table-wrap'}>
            <table>{children}</table>
          </div>
          {held && <HeldSays {...held} />}
        </div>
      )}
    </>
  )
}
