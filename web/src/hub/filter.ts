// A person may type a bare word; the hub's language wants a comparison.
export function toFilter(typed: string): string {
  const text = typed.trim()
  if (text === '') return ''
  if (/[=<>:()"]|\b(AND|OR|NOT)\b/.test(text)) return text
  return text
    .split(/\s+/)
    .map((word) => `name : ${quote(word)}`)
    .join(' AND ')
}

// Texts with other characters than those of names stand in quotes.
export function quote(text: string): string {
  return /^[A-Za-z0-9_./-]+$/.test(text) ? text : JSON.stringify(text)
}
