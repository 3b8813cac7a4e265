import { quote } from '../../hub/filter'

// Events have no name: a bare word is looked for in their type.
export function eventFilter(typed: string): string {
  const text = typed.trim()
  if (text === '' || /[=<>:()"]|\b(AND|OR|NOT)\b/.test(text)) return text
  return text
    .split(/\s+/)
    .map((word) => `type : ${quote(word)}`)
    .join(' AND ')
}
