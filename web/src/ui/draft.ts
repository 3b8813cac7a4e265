import { useState } from 'react'

// What is typed and not sent yet: it lives as long as the tab, whatever page is shown meanwhile, and never in the browser's storage.
const drafts = new Map<string, string>()

export function useDraft(key: string, first: string): [string, (text: string) => void] {
  const [text, setText] = useState(drafts.get(key) ?? first)
  return [
    text,
    (text) => {
      drafts.set(key, text)
      setText(text)
    },
  ]
}
