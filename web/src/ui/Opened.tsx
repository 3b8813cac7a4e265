import { useSearchParams } from 'react-router'
import { useChange } from './address'
import { isOpen, setPart } from './opened'

// A part of a page that a person opens and shuts. Which are not as they are by themselves stands in the address.
export function Opened({
  name,
  byItself = false,
  summary,
  className,
  children,
}: {
  // Of the part, on its page.
  name: string
  byItself?: boolean
  summary: React.ReactNode
  className?: string
  // A function is called when the part is open, where drawing it is dear.
  children: React.ReactNode | (() => React.ReactNode)
}) {
  const [params] = useSearchParams()
  const change = useChange()
  const open = isOpen(params, name, byItself)
  return (
    <details
      className={className}
      open={open}
      onToggle={(e) => {
        const now = e.currentTarget.open
        if (now !== open) change((to) => setPart(to, name, byItself, now), { replace: true })
      }}
    >
      <summary>{summary}</summary>
      {typeof children === 'function' ? open && children() : children}
    </details>
  )
}
