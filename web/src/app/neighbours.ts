// Neighbours are the addresses of a list's rows, in its order.
export type Neighbours = string[]

// The address beside the one that is shown. None: the page was reached by another way, or is the last one.
export function neighbourOf(list: Neighbours, shown: string, by: number): string | undefined {
  const at = list.indexOf(shown)
  return at < 0 ? undefined : list[at + by]
}

// What of the address goes along to the neighbour: the tab. Pods, searches, revisions and paths are those of one thing.
export function carried(search: string): string {
  const tab = new URLSearchParams(search).get('tab')
  return tab ? `?${new URLSearchParams({ tab })}` : ''
}
