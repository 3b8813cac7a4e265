// Lines that stay beside what changes.
const context = 3
// Longer texts are not compared line by line: the table of it has a cell for each pair.
const mostCells = 4_000_000

type Edit = { sign: ' ' | '-' | '+'; line: string }

// The difference of two texts as `diff -u` writes it, without the names. '' for none.
export function linesOf(before: string, after: string): string {
  if (before === after) return ''
  const edits = editsOf(before.trimEnd().split('\n'), after.trimEnd().split('\n'))
  const shown = edits.map((_, i) =>
    edits.slice(Math.max(0, i - context), i + context + 1).some((e) => e.sign !== ' '),
  )
  const out: string[] = []
  let old = 1
  let now = 1
  for (const [i, e] of edits.entries()) {
    if (shown[i] && !shown[i - 1]) {
      const end = shown.indexOf(false, i)
      const part = edits.slice(i, end < 0 ? undefined : end)
      const count = (sign: string) => part.filter((p) => p.sign !== sign).length
      out.push(`@@ -${old},${count('+')} +${now},${count('-')} @@`)
    }
    if (shown[i]) out.push(e.sign + e.line)
    if (e.sign !== '+') old++
    if (e.sign !== '-') now++
  }
  return out.join('\n')
}

// The fewest lines that go and come, by the longest common part.
function editsOf(a: string[], b: string[]): Edit[] {
  const gone = (line: string): Edit => ({ sign: '-', line })
  const come = (line: string): Edit => ({ sign: '+', line })
  if (a.length * b.length > mostCells) return [...a.map(gone), ...b.map(come)]
  const width = b.length + 1
  const common = new Uint32Array((a.length + 1) * width)
  const at = (i: number, j: number) => common[i * width + j] ?? 0
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      common[i * width + j] = a[i] === b[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1))
  const out: Edit[] = []
  let i = 0
  let j = 0
  while (i < a.length || j < b.length) {
    const [x, y] = [a[i], b[j]]
    if (x !== undefined && x === y) {
      out.push({ sign: ' ', line: x })
      i++
      j++
    } else if (x !== undefined && (y === undefined || at(i + 1, j) >= at(i, j + 1))) {
      out.push(gone(x))
      i++
    } else if (y !== undefined) {
      out.push(come(y))
      j++
    }
  }
  return out
}
