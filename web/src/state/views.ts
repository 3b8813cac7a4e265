import { amount, bytesOf } from '../ui/text'

// Figures are numbers that an agent counted, by section and name. What is unknown is absent, and never 0.
export type Figures = { [name: string]: bigint }

// A column of tables about clusters, with the order of the hub that puts the worst first.
export type FigureColumn = {
  title: string
  order: string
  show: (f: Figures) => string
  bad: (f: Figures) => boolean
}

// Whether a view is of now.
export const follows = (v: { connected: boolean; unfollowed: string }) => v.connected && v.unfollowed === ''

const sectionOf = (name: string) => name.slice(0, name.indexOf('.'))

// A section of which the agent counts a sample has estimates.
const about = (f: Figures, ...sections: string[]) =>
  sections.some((section) => (f[`${section}.sampled`] ?? 0n) > 0n) ? '≈ ' : ''

// Sums compare what the same clusters know: one whose agent may not list nodes has requests, and none that they are a share of.
export function summed(f: Figures): Figures {
  const out = { ...f }
  for (const what of ['cpu', 'memory']) {
    const requested = f[`shares.${what}_requested`]
    const allocatable = f[`shares.${what}_allocatable`]
    delete out[`requests.${what}`]
    delete out[`nodes.${what}_allocatable`]
    if (requested === undefined || allocatable === undefined) continue
    out[`requests.${what}`] = requested
    out[`nodes.${what}_allocatable`] = allocatable
  }
  return out
}

export const count = (n: bigint | undefined) => (n === undefined ? '–' : Number(n).toLocaleString())

// cores writes thousandths of a core.
export const cores = (milli: number) =>
  `${milli < 10_000 ? (milli / 1000).toFixed(1) : Math.round(milli / 1000).toLocaleString()} cores`

export function share(f: Figures, part: string, whole: string, show: (n: number) => string): string {
  const some = f[part]
  const all = f[whole]
  if (some === undefined) return '–'
  const mark = about(f, sectionOf(part), sectionOf(whole))
  if (!all) return mark + show(Number(some))
  return `${mark}${show(Number(some))} of ${show(Number(all))} (${Math.round((Number(some) * 100) / Number(all))} %)`
}

const percent = (f: Figures, part: string, whole: string) => {
  const some = f[part]
  const all = f[whole]
  return some === undefined || !all
    ? '–'
    : `${about(f, sectionOf(part), sectionOf(whole))}${Math.round((Number(some) * 100) / Number(all))} %`
}

const counted = (f: Figures, name: string) =>
  f[name] === undefined ? count(undefined) : about(f, sectionOf(name)) + count(f[name])

const of = (f: Figures, some: string, all: string) =>
  f[some] === undefined || f[all] === undefined ? counted(f, some) : `${counted(f, some)} of ${count(f[all])}`

const any = (name: string) => (f: Figures) => (f[name] ?? 0n) > 0n

// "At least": the agent began within the hour.
const hourly = (section: string) => (f: Figures) =>
  `${f[`${section}.at_least`] && f[`${section}.hour`] !== undefined ? '≥ ' : ''}${counted(f, `${section}.hour`)}`

export const figureColumns: FigureColumn[] = [
  {
    title: 'Nodes not ready',
    order: 'nodes.not_ready',
    show: (f) => of(f, 'nodes.not_ready', 'nodes.total'),
    bad: any('nodes.not_ready'),
  },
  {
    title: 'Pods not ready',
    order: 'pods.not_ready',
    show: (f) => of(f, 'pods.not_ready', 'pods.total'),
    bad: any('pods.not_ready'),
  },
  {
    title: 'Workloads not well',
    order: 'workloads.not_well',
    show: (f) => of(f, 'workloads.not_well', 'workloads.total'),
    bad: any('workloads.not_well'),
  },
  {
    title: 'Pods without image',
    order: 'pulls.pods',
    show: (f) => counted(f, 'pulls.pods'),
    bad: any('pulls.pods'),
  },
  { title: 'Restarts an hour', order: 'restarts.hour', show: hourly('restarts'), bad: () => false },
  { title: 'Warnings an hour', order: 'warnings.hour', show: hourly('warnings'), bad: () => false },
  {
    title: 'CPU requested',
    order: 'requests.cpu',
    show: (f) => percent(f, 'requests.cpu', 'nodes.cpu_allocatable'),
    bad: () => false,
  },
  {
    title: 'Memory requested',
    order: 'requests.memory',
    show: (f) => percent(f, 'requests.memory', 'nodes.memory_allocatable'),
    bad: () => false,
  },
]

// Words with the figure that they are about, and whether its 0 is said, too.
export type Word = [words: string, n?: bigint | undefined, zero?: true]

// What is said of figures: the first words always, others where their figure is known, and not 0 unless that is said, too.
export const said = (of: Word[]): string[] =>
  of.flatMap(([words, n, zero], i) => (i === 0 || (n !== undefined && (zero || n > 0n)) ? [words] : []))

export const usedWords = (f: Figures): Word[] => [
  [`CPU: ${share(f, 'used.cpu', 'nodes.cpu_allocatable', cores)}`],
  [`memory: ${share(f, 'used.memory', 'nodes.memory_allocatable', memory)}`, f['used.memory']],
  [`of ${amount(f['used.nodes'], 'node')}`, f['used.nodes']],
]

// Sections of ViewSets, whose names are behind this.
const ofSet = 'set-'
export const isSet = (section: string) => section.startsWith(ofSet)
export const setName = (section: string) => section.slice(ofSet.length)

// What a ViewSet counts: all objects, and then each figure that is not 0.
export const setWords = (f: Figures): Word[] =>
  f.total === undefined
    ? []
    : [
        [`${count(f.total)} in all`],
        ...Object.entries(f)
          .filter(([name]) => name !== 'total')
          .sort(([a], [b]) => a.localeCompare(b))
          .map(([name, n]): Word => [`${name.replace('.', ' ')}: ${count(n)}`, n]),
      ]

// Cells of a row with their heads, as far as they are known.
export const cellWords = (heads: string[], cells: string[]): string[] =>
  cells.flatMap((cell, i) => (cell === '' ? [] : [heads[i] ? `${heads[i]} ${cell}` : cell]))

export const deprecatedWords = (f: Figures): Word[] => [
  [`${count(f['deprecated.applied'])} used by Fairlead`],
  [`${count(f['deprecated.total'])} in all`, f['deprecated.total']],
]

export const credentialWords = (f: Figures): Word[] => [
  [`${count(f['agent.credentials'])} in all`],
  [`${count(f['agent.end_soon'])} end soon`, f['agent.end_soon']],
  [`${count(f['agent.ended'])} ended`, f['agent.ended']],
]

// States of pods, the most frequent first, with their words.
export function podStates(f: Figures): [string, bigint][] {
  return Object.entries(f)
    .flatMap(([name, n]): [string, bigint][] =>
      name.startsWith('pods.state.') ? [[name.slice('pods.state.'.length), n]] : [],
    )
    .sort(([a, x], [b, y]) => (x === y ? a.localeCompare(b) : x < y ? 1 : -1))
}

// Groups of the kinds that views have rows of, as addresses of the explorer name them.
const groups: Record<string, string> = {
  Pod: '',
  Node: '',
  PersistentVolumeClaim: '',
  Deployment: 'apps',
  StatefulSet: 'apps',
  DaemonSet: 'apps',
  ReplicaSet: 'apps',
  Job: 'batch',
  CronJob: 'batch',
}

// explored is where the object of a row is shown; '' for what is no object.
export function explored(cluster: string, of: { kind: string; namespace: string; name: string }): string {
  const group = groups[of.kind]
  if (group === undefined || of.name === '') return ''
  return `/cluster/${cluster}/explore?${new URLSearchParams({
    kind: `${of.kind}.${group}`,
    obj: of.namespace ? `${of.namespace}/${of.name}` : of.name,
  })}`
}

export const memory = (n: number) => bytesOf(n)
