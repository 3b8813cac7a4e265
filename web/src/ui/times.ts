// A time in a sentence of the hub, which is in UTC: 2026-11-24T14:02:11Z, or 2026-11-24 14:02:11 UTC.
const times = /(\d{4}-\d{2}-\d{2}(?:T\d{2}:\d{2}:\d{2}(?:\.\d+)?Z| \d{2}:\d{2}:\d{2} UTC))/

// An age before its time. The page says the age of now itself.
const ages = new RegExp(` \\d+ (?:s|min|h|days) ago, at (?=${times.source})`, 'g')

// The parts of a sentence: words, and times.
export function partsOf(text: string): (string | Date)[] {
  return text
    .replace(ages, ' at ')
    .split(times)
    .flatMap((part, i) => {
      if (part === '') return []
      if (i % 2 === 0) return [part]
      const at = new Date(part.replace(' UTC', 'Z').replace(' ', 'T'))
      return [Number.isNaN(at.getTime()) ? part : at]
    })
}

// A time in the zone of the person.
export const localTime = (at: Date) => at.toLocaleString([], { dateStyle: 'medium', timeStyle: 'medium' })

// A sentence with its times in the zone of the person.
export const localTimes = (text: string) =>
  partsOf(text)
    .map((p) => (p instanceof Date ? localTime(p) : p))
    .join('')
