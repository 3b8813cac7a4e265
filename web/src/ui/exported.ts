import { toYaml } from './yaml'

export type Row = Record<string, string>

// A table as other programs read it. What could be taken for a formula by one of them is quoted.
export function toCsv(columns: string[], rows: Row[]): string {
  const cell = (text: string) => {
    const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text
    return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
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
