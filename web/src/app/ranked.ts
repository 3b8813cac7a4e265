// act: what it does instead of leading to a page. searched: the hub found it by more than its name.
export type Found = { name: string; to: string; what: string; act?: () => void; searched?: boolean }

// The most that are shown.
export const mostFound = 14

// What is called so comes first, then what begins so, then a word that begins so, then what has it somewhere.
export function ranked(text: string, list: Found[]): Found[] {
  const want = text.toLowerCase()
  const rank = ({ name, searched }: Found) => {
    const has = name.toLowerCase()
    if (has === want) return 0
    if (has.startsWith(want)) return 1
    if (has.split(/[^a-z0-9]+/).some((w) => w.startsWith(want))) return 2
    return searched || has.includes(want) ? 3 : 4
  }
  return list
    .map((f, i) => ({ f, i, rank: rank(f) }))
    .filter((x) => x.rank < 4)
    .sort((a, b) => a.rank - b.rank || a.i - b.i)
    .slice(0, mostFound)
    .map((x) => x.f)
}
