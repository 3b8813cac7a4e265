import { toYaml } from './yaml'

export type Row = Record<string, string>

// Where a program that reads a table may find the beginning of a cell: at its beginning, and behind what some of them take for the end of a cell or a line
// whatever is quoted.
const formula = /(^|[;\t\r\n])( *)(?=[=+\-@\uff1d\uff0b\uff0d\uff20])/g

// A table as other programs read it, by RFC 4180. What one of them could take for a formula has an apostrophe before it, which they take for the mark of a text.
export function toCsv(columns: string[], rows: Row[]): string {
  const cell = (text: string) => {
    const safe = text.replace(formula, "$1'$2")
    return /[",;\t\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
  }
  return [columns, ...rows.map((r) => columns.map((c) => r[c] ?? ''))]
    .map((l) => `${l.map(cell).join(',')}\r\n`)
    .join('')
}

export const toYamlRows = (rows: Row[]) => toYaml({ rows: rows as never })

export function save(name: string, text: string, type: string) {
  const url = URL.createObjectURL(new Blob([text], { type }))
  const a = document.createElement('a')
  a.href = url
  a.download = name
  a.click()
  URL.revokeObjectURL(url)
}
