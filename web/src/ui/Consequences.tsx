import { plain } from './text'

// What follows from a deed: a sentence, or one with a list below it.
export type Consequence = string | { says: string; each: string[] }

// So many of a list are drawn.
const most = 100

export function Consequences({ of }: { of: Consequence[] }) {
  const parts = of.map((c) => (typeof c === 'string' ? { says: c, each: [] } : c))
  return (
    <ul>
      {parts.slice(0, most).map(({ says, each }) => (
        <li key={says}>
          {plain(says, 400)}
          {each.length > 0 && (
            <ul>
              {each.slice(0, most).map((e) => (
                <li key={e}>{plain(e, 400)}</li>
              ))}
              {each.length > most && <li>and {(each.length - most).toLocaleString()} more</li>}
            </ul>
          )}
        </li>
      ))}
      {parts.length > most && <li>and {(parts.length - most).toLocaleString()} more</li>}
    </ul>
  )
}
