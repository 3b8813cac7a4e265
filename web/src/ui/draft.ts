import { useState } from 'react'

type Draft = {
  text: string
  // The version of what is edited that it began with.
  of: string
}

// What is typed and not sent yet: it lives as long as the tab, whatever page is shown meanwhile, and never in the browser's storage.
export class Drafts {
  #all = new Map<string, Draft>()

  get(key: string, first: string, of: string): Draft {
    return this.#all.get(key) ?? { text: first, of }
  }

  set(key: string, text: string, of: string) {
    this.#all.set(key, { text, of: this.#all.get(key)?.of ?? of })
  }

  end(key: string) {
    this.#all.delete(key)
  }
}

const drafts = new Drafts()

// of: the version of what is edited now.
export function useDraft(key: string, first: string, of = '') {
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
    // What was typed is written: another look at the same begins with what is there then.
    end: () => drafts.end(key),
    begin: (text: string) => {
      drafts.end(key)
      setText(text)
    },
  }
}
