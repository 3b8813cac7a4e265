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

export function clock(time: number): string {
  return new Date(time).toLocaleTimeString([], {
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
    hourCycle: 'h23',
  })
}
