import { useCallback, useReducer, useRef } from 'react'

// A list that nobody has touched for so long takes its order again.
const longest = 60_000

export type Waiting = { came: number; gone: ReadonlySet<string>; moved: boolean }

const nothing: Waiting = { came: 0, gone: new Set(), moved: false }

// Held keeps the rows of a list in place while a person's pointer or focus is in it: a click then hits the row that the
// person sees. Rows change where they are, those that come wait, and those that are gone stay as they were last.
export class Held<T> {
  #of = ''
  #rows: T[] = []
  #waiting = nothing
  #own = false
  #in = { pointer: false, focus: false }
  #timer: ReturnType<typeof setTimeout> | undefined

  constructor(private readonly draw: () => void) {}

  enter(what: 'pointer' | 'focus') {
    this.#in[what] = true
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.free(), longest)
  }

  leave(what: 'pointer' | 'focus') {
    this.#in[what] = false
    if (!this.#in.pointer && !this.#in.focus) this.free()
  }

  free = () => {
    clearTimeout(this.#timer)
    this.#in = { pointer: false, focus: false }
    if (this.#waiting !== nothing) this.draw()
  }

  // The next change of rows is the person's own, and is shown.
  own = () => {
    this.#own = true
  }

  // The rows to draw, of those that the hub has now. of: the question that they answer; another one holds nothing.
  take(of: string, now: T[], nameOf: (row: T) => string): { rows: T[]; waiting: Waiting | undefined } {
    const isHeld = this.#in.pointer || this.#in.focus
    if (!isHeld || of !== this.#of || this.#rows.length === 0) {
      this.#of = of
      this.#own = false
      this.#rows = now
      this.#waiting = nothing
      return { rows: now, waiting: undefined }
    }
    const fresh = new Map(now.map((row) => [nameOf(row), row]))
    const names = this.#rows.map(nameOf)
    const shown = new Set(names)
    this.#rows = this.#rows.map((row) => fresh.get(nameOf(row)) ?? row)
    const gone = new Set(names.filter((name) => !fresh.has(name)))
    const stay = [...fresh.keys()].filter((name) => shown.has(name))
    const before = names.filter((name) => !gone.has(name))
    const moved = stay.some((name, i) => name !== before[i])
    const came = fresh.size - stay.length
    this.#waiting = came > 0 || gone.size > 0 || moved ? { came, gone, moved } : nothing
    if (this.#own && this.#waiting !== nothing) {
      this.#own = false
      this.#rows = now
      this.#waiting = nothing
    }
    return { rows: this.#rows, waiting: this.#waiting === nothing ? undefined : this.#waiting }
  }
}

export type HeldRows<T> = {
  rows: T[]
  waiting: Waiting | undefined
  ref: (list: HTMLElement | null) => (() => void) | undefined
  show: () => void
  own: () => void
}

// What a list answers, for useHeld: while it still shows the answer to another question it is none.
export function questionOf(
  list: { isPlaceholderData?: boolean },
  ...parts: (string | number | boolean)[]
): string {
  return list.isPlaceholderData ? '' : parts.join('\n')
}

export function useHeld<T>(of: string, now: T[] | undefined, nameOf: (row: T) => string): HeldRows<T> {
  const [, draw] = useReducer((n: number) => n + 1, 0)
  const held = useRef<Held<T>>(undefined)
  held.current ??= new Held<T>(draw)
  const at = held.current
  const ref = useCallback(
    (list: HTMLElement | null) => {
      if (!list) return undefined
      // A page that comes below a pointer that rests holds nothing, and no row is in the head of a table.
      const isRow = (e: Event) => !(e.target as Element).closest('thead')
      const moved = (e: Event) => (isRow(e) ? at.enter('pointer') : at.leave('pointer'))
      // A finger is lifted before the next tap.
      const left = (e: PointerEvent) => e.pointerType === 'touch' || at.leave('pointer')
      const focused = (e: Event) => (isRow(e) ? at.enter('focus') : at.leave('focus'))
      const blurred = (e: FocusEvent) => list.contains(e.relatedTarget as Node | null) || at.leave('focus')
      list.addEventListener('pointermove', moved)
      list.addEventListener('pointerleave', left)
      list.addEventListener('focusin', focused)
      list.addEventListener('keydown', focused)
      list.addEventListener('focusout', blurred)
      return () => {
        list.removeEventListener('pointermove', moved)
        list.removeEventListener('pointerleave', left)
        list.removeEventListener('focusin', focused)
        list.removeEventListener('keydown', focused)
        list.removeEventListener('focusout', blurred)
        at.free()
      }
    },
    [at],
  )
  return { ...at.take(of, now ?? [], nameOf), ref, show: at.free, own: at.own }
}
