import { useSearchParams } from 'react-router'
import { put, useChange } from '../../ui/address'
import { plain } from '../../ui/text'

// Chooses the revision that is shown: a ref that services name, or a commit. It stands in the address.
export function Revision({ refs }: { refs: string[] }) {
  const [params] = useSearchParams()
  const change = useChange()
  const revision = params.get('rev') ?? ''
  return (
    <form
      key={revision}
      className="actions"
      onSubmit={(e) => {
        e.preventDefault()
        const typed = String(new FormData(e.currentTarget).get('rev') ?? '').trim()
        change((to) => put(to, 'rev', typed))
      }}
    >
      <input
        name="rev"
        data-search
        defaultValue={revision}
        list="refs"
        placeholder="the default branch; or a ref, a commit"
        aria-label="Revision"
        spellCheck={false}
        maxLength={255}
        size={44}
      />
      <datalist id="refs">
        {refs.slice(0, 200).map((r) => (
          <option key={r} value={r}>
            {plain(r, 200)}
          </option>
        ))}
      </datalist>
      <button type="submit">Show</button>
    </form>
  )
}
