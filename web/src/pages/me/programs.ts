// What a program calls itself, in words: browsers say the names of many others, too.
export function programOf(agent: string): string {
  const command = /^fairlead\/(\S+)(?: \((\w+)\))?/.exec(agent)
  if (command) return `fairlead ${command[1]}${command[2] ? ` on ${systems[command[2]] ?? command[2]}` : ''}`
  const browser = browsers.find(([mark]) => agent.includes(mark))?.[1]
  const system = marks.find(([mark]) => agent.includes(mark))?.[1]
  if (browser) return system ? `${browser} on ${system}` : browser
  return agent || 'not known'
}

// The first one that fits: Edge says Chrome, too, and Chrome says Safari.
const browsers: [string, string][] = [
  ['Edg/', 'Edge'],
  ['OPR/', 'Opera'],
  ['Firefox/', 'Firefox'],
  ['FxiOS/', 'Firefox'],
  ['CriOS/', 'Chrome'],
  ['Chrome/', 'Chrome'],
  ['Safari/', 'Safari'],
]

// Android says Linux, too, and an iPhone says Mac OS X.
const marks: [string, string][] = [
  ['Android', 'Android'],
  ['iPhone', 'iPhone'],
  ['iPad', 'iPad'],
  ['Windows', 'Windows'],
  ['Macintosh', 'macOS'],
  ['CrOS', 'ChromeOS'],
  ['Linux', 'Linux'],
]

const systems: Record<string, string> = { linux: 'Linux', darwin: 'macOS', windows: 'Windows' }
