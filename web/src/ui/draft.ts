import { useState } from 'react'

// of: the version of what is edited that it began with.
type Draft<T> = { text: string; of: T }

// What is typed and not sent yet: it lives as long as the tab, whatever page is shown meanwhile, and never in the browser's storage.
export class Drafts {
  #all = new Map<string, Draft<unknown>>()

  get<T>(key: string, first: string, of: T): Draft<T> {
    return (this.#all.get(key) as Draft<T> | undefined) ?? { text: first, of }
  }

  set<T>(key: string, text: string, of: T) {
    this.#all.set(key, { text, of: this.#all.get(key)?.of ?? of })
  }

  // Ends a draft that was sent and is written now, and says whether it has: what was typed meanwhile stays, and is of what was written.
  written<T>(key: string, sent: string, of: T): boolean {
    const draft = this.#all.get(key)
    if (draft && draft.text !== sent) {
      this.#all.set(key, { text: draft.text, of })
      return false
    }
    this.end(key)
    return true
  }

  end(key: string) {
    this.#all.delete(key)
  }
}

const drafts = new Drafts()

// What a draft began with; without one, what is there now.
export const begunWith = <T>(key: string, now: T): T => drafts.get(key, '', now).of

// of: the version of what is edited now.
export function useDraft<T>(key: string, first: string, of: T) {
  const [text, setText] = useState(() => drafts.get(key, first, of).text)
  return {
    text,
    of: drafts.get(key, first, of).of,
    // An editor that is given a text tells of it, too: that is not typed.
    type: (typed: string) => {
      if (typed === text) return
      drafts.set(key, typed, of)
      setText(typed)
    },
    // of: the version that was made of what was sent. Whether nothing was typed meanwhile: then another look begins with what is there by then.
    written: (sent: string, of: T) => drafts.written(key, sent, of),
    begin: (text: string) => {
      drafts.end(key)
      setText(text)
    },
  }
}
