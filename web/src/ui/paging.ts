// A page in the address: its number, what it is a page of, and the token of the hub that leads there.
export function pageText(of: string, number: number, token: string): string {
  return `${number}.${sumOf(of)}.${token}`
}

// The page that an address names. The first one, where it names none or one of another list.
export function pageIn(text: string, of: string): { number: number; token: string } {
  const [, number = '', sum, token = ''] = /^(\d{1,6})\.([0-9a-z]+)\.(.+)$/.exec(text) ?? []
  if (Number(number) < 2 || sum !== sumOf(of)) return { number: 1, token: '' }
  return { number: Number(number), token }
}

// FNV-1a: a token belongs to a filter and an order, and only tells these apart.
function sumOf(text: string): string {
  let sum = 0x811c9dc5
  for (let i = 0; i < text.length; i++) sum = Math.imul(sum ^ text.charCodeAt(i), 0x01000193) >>> 0
  return sum.toString(36)
}

// Names that are chosen, in the address. More of them are no part of it: an address has an end. One that has more was not made here, and chooses nothing.
const most = 100
const longest = most * 400

export function chosenIn(text: string): string[] {
  if (text.length > longest) return []
  const names = [...new Set(text.split(',').filter(Boolean))]
  return names.length > most ? [] : names
}

export const chosenText = (names: Iterable<string>): string | undefined => {
  const all = [...names]
  const text = all.join(',')
  return all.length > most || text.length > longest ? undefined : text
}
