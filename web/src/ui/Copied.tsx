import { useState } from 'react'

export function Copied({ text, what = 'Copy' }: { text: string; what?: string }) {
  const [said, setSaid] = useState('')
  return (
    <button
      type="button"
      onClick={() =>
        navigator.clipboard.writeText(text).then(
          () => setSaid('Copied'),
          () => setSaid('Not allowed by the browser'),
        )
      }
      onBlur={() => setSaid('')}
    >
      {said || what}
    </button>
  )
}
