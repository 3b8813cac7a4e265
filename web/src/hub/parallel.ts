// Does something for each of a list, so many at once, and returns what came of each in the order of the list.
export async function inParallel<T, R>(list: T[], most: number, work: (of: T) => Promise<R>): Promise<R[]> {
  const out: R[] = new Array(list.length)
  let next = 0
  const one = async () => {
    while (next < list.length) {
      const at = next++
      out[at] = await work(list[at] as T)
    }
  }
  await Promise.all(Array.from({ length: Math.min(most, list.length) }, one))
  return out
}
