// Ages as the command line writes them: the two largest units say enough.
export function age(ms: number): string {
  const s = Math.max(0, Math.floor(ms / 1000))
  if (s < 60) return `${s}s`
  const m = Math.floor(s / 60)
  if (m < 60) return m < 10 && s % 60 > 0 ? `${m}m${s % 60}s` : `${m}m`
  const h = Math.floor(m / 60)
  if (h < 48) return h < 10 && m % 60 > 0 ? `${h}h${m % 60}m` : `${h}h`
  return `${Math.floor(h / 24)}d`
}

// Whether a date is one: a page that writes any other one in ISO 8601 is gone.
export const isTime = (at: Date) => !Number.isNaN(at.getTime())

// A time of today by its clock, and one of another day with the day: 14:02:11, 2026-11-24 14:02.
export function shortTime(at: Date, now: number): string {
  const [day = '', time = ''] = moment(at.toISOString()).split(' ')
  return day === moment(new Date(now).toISOString()).slice(0, 10)
    ? time.slice(0, 8)
    : `${day} ${time.slice(0, 5)}`
}

// The same of a time of this browser.
export const clock = (time: number, now = Date.now()) => shortTime(new Date(time), now)

// A time of a log, to the millisecond, in the zone of the person: 2026-11-24 14:02:11.123.
export function moment(text: string): string {
  const at = new Date(text)
  if (!isTime(at)) return text
  const two = (n: number) => String(n).padStart(2, '0')
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`
  return `${day} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}.${String(at.getMilliseconds()).padStart(3, '0')}`
}
