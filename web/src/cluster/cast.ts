// A recording of a shell, as asciicast v2: a header, and what was shown when, one JSON value a line.
export type Cast = { cols: number; rows: number; events: CastEvent[] }
export type CastEvent = { at: number; text?: string; cols?: number; rows?: number } // at: milliseconds after the begin

const mostColumns = 500

// Reads a recording as far as it is whole. A line that is none ends it, because a recording that goes on may be cut within a line.
export function castOf(text: string): Cast {
  const lines = text.split('\n')
  const cast: Cast = { cols: 80, rows: 24, events: [] }
  const header = parsed(lines[0] ?? '') as { version?: number; width?: number; height?: number } | undefined
  if (header?.version !== 2) throw new Error('The recording has no header of an asciicast of version 2.')
  cast.cols = sizeOf(header.width, 80)
  cast.rows = sizeOf(header.height, 24)
  for (const line of lines.slice(1)) {
    if (line === '') continue
    const event = parsed(line)
    if (!Array.isArray(event) || typeof event[0] !== 'number' || typeof event[2] !== 'string') break
    const at = Math.max(0, event[0] * 1000)
    if (event[1] === 'o') cast.events.push({ at, text: event[2] })
    const size = event[1] === 'r' ? /^(\d+)x(\d+)$/.exec(event[2]) : null
    if (size) cast.events.push({ at, cols: sizeOf(Number(size[1]), 80), rows: sizeOf(Number(size[2]), 24) })
  }
  return cast
}

function parsed(line: string): unknown {
  try {
    return JSON.parse(line)
  } catch {
    return undefined
  }
}

const sizeOf = (n: unknown, first: number) =>
  typeof n === 'number' && n >= 1 ? Math.min(mostColumns, Math.floor(n)) : first

// When each event is played, if pauses last so long at most.
export function playTimes(cast: Cast, longestPause: number): number[] {
  let at = 0
  let before = 0
  return cast.events.map((e) => {
    at += Math.min(Math.max(0, e.at - before), longestPause)
    before = Math.max(before, e.at)
    return at
  })
}
