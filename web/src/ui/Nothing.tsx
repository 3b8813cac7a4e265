import { Link } from 'react-router'
import { plain } from './text'

// What stands in place of a list without rows: why there are none as far as the person may know, and the next step.
export function Nothing({
  what,
  filter,
  all,
  children,
}: {
  what: string
  filter: string
  // The address of the list without a filter.
  all: string
  // How a first one is made.
  children: React.ReactNode
}) {
  if (filter === '')
    return (
      <p>
        There is no {what} that you may see. {children}
      </p>
    )
  return (
    <p>
      No {what} fits <code>{plain(filter)}</code>. <Link to={all}>Show all</Link>
    </p>
  )
}
