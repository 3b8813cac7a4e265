// Done is an action that the hub has taken in, and how to undo it; or one that failed where no page shows that any more.
export type Done = {
  id: number
  what: string
  at: number
  // Undoes it. A text that comes back is said with it. Unset: it failed.
  undo?: () => Promise<unknown>
  // failed: to be undone.
  state: 'done' | 'undoing' | 'undone' | 'failed' | 'refused'
  failure?: unknown
  // What is said of what was undone.
  note?: string
}

// So many are kept, the newest.
const most = 5

// Tray keeps what a person has done in this tab, so that it can be undone where the page has moved on.
export class Tray {
  #list: readonly Done[] = []
  #last = 0
  #listeners = new Set<() => void>()

  subscribe = (listener: () => void) => {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  snapshot = () => this.#list

  add(what: string, undo: () => Promise<unknown>) {
    this.#begin({ what, state: 'done', undo })
  }

  refuse(what: string, failure: unknown) {
    this.#begin({ what, state: 'refused', failure })
  }

  // An action is undone once. One that failed can be tried again.
  async undo(id: number): Promise<void> {
    const done = this.#list.find((d) => d.id === id)
    if (!done?.undo || done.state === 'undoing' || done.state === 'undone') return
    this.#change(id, { state: 'undoing' })
    try {
      const note = await done.undo()
      this.#change(id, { state: 'undone', at: Date.now(), ...(typeof note === 'string' ? { note } : {}) })
    } catch (failure) {
      this.#change(id, { state: 'failed', failure })
    }
  }

  clear() {
    this.#set([])
  }

  #begin(done: Omit<Done, 'id' | 'at'>) {
    this.#set([{ ...done, id: ++this.#last, at: Date.now() }, ...this.#list].slice(0, most))
  }

  #change(id: number, to: Partial<Done>) {
    this.#set(this.#list.map((d) => (d.id === id ? { ...d, ...to } : d)))
  }

  #set(list: readonly Done[]) {
    this.#list = list
    for (const listener of this.#listeners) listener()
  }
}

export const tray = new Tray()
