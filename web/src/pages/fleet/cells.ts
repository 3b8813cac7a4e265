import { type Count, countedBy } from '../../state/counted'
import { isState, type State, worst, worstFirst } from '../../state/states'

export type Cell = { name: string; group: string; state: State; words: string }

// How many services there are in each state, of counts by cluster and state.
export function sums(counts: Count[]): Map<State, number> {
  const out = new Map<State, number>()
  for (const { values, count } of counts) {
    const state = isState(values[1] ?? '') ? (values[1] as State) : 'unknown'
    out.set(state, (out.get(state) ?? 0) + count)
  }
  return out
}

// A cell is as its worst service. What a cluster that is away said last is nobody's state now.
export function cellsOf(clusters: Count[], services: Count[]): Cell[] {
  const of = countedBy(services)
  const cells = clusters.map(({ values }): Cell => {
    const [name = '', connected = '', group = ''] = values
    const states = of.get(name) ?? new Map<State, number>()
    if (connected !== 'true') return { name, group, state: 'unknown', words: 'not connected' }
    const words = worstFirst.filter((s) => states.get(s)).map((s) => `${states.get(s)} ${s}`)
    return { name, group, state: worst(states.keys()) ?? 'healthy', words: words.join(', ') || 'no services' }
  })
  const rank = (c: Cell) => worstFirst.indexOf(c.state)
  return cells.sort((a, b) => rank(a) - rank(b) || a.name.localeCompare(b.name))
}

// The groups of cells, the one with the worst cluster first.
export function groups(cells: Cell[]): [string, Cell[]][] {
  const out = new Map<string, Cell[]>()
  for (const cell of cells) out.set(cell.group, [...(out.get(cell.group) ?? []), cell])
  return [...out]
}
