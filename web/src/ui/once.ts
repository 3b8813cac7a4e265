import { useState } from 'react'

// Sends one at a time: a second click may come before the page has drawn that the first one is on its way.
export type Once = {
  // Whether something is on its way.
  readonly sent: boolean
  send: (act: () => void) => void
  settled: () => void
}

export const useOnce = () => useState(once)[0]

export function once(): Once {
  let sent = false
  return {
    get sent() {
      return sent
    },
    send: (act) => {
      if (sent) return
      sent = true
      act()
    },
    settled: () => {
      sent = false
    },
  }
}
