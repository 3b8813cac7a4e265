import { timestampMs } from '@bufbuild/protobuf/wkt'
import type {
  GetViewCurvesResponse,
  ViewCurve,
  ViewCurvePoint,
} from '../gen/fairlead/console/v1/cluster_view_service_pb'

const titles: Record<string, string> = {
  'pods.not_ready': 'Pods not ready',
  'restarts.hour': 'Restarts an hour',
  'warnings.hour': 'Warnings an hour',
  'shares.cpu': 'CPU requested',
  'shares.memory': 'Memory requested',
}

// A curve is this high in its own units, and one wide for each step.
export const curveHeight = 24

export type Drawn = {
  figure: string
  title: string
  last: string
  highest: string
  // When the steps of these ended; undefined: the step is that of now.
  lastTime: ViewCurvePoint['time']
  highestTime: ViewCurvePoint['time']
  // Paths of an SVG: the last value of each step, and the ground below the highest.
  line: string
  ground: string
  // Some steps have no point.
  gaps: boolean
  // Clusters that the last step knows.
  clusters: number
}

// How many steps curves have.
export function stepsOf(of: GetViewCurvesResponse): number {
  const length = Number(of.step?.seconds ?? 0n) * 1000
  return length > 0 && of.beginTime && of.endTime
    ? Math.round((timestampMs(of.endTime) - timestampMs(of.beginTime)) / length) + 1
    : 0
}

// Curves of which something is known.
export const drawn = (of: GetViewCurvesResponse): Drawn[] =>
  of.curves.flatMap((c) => {
    const last = c.points.at(-1)
    return last ? [draw(of, c, last)] : []
  })

function draw(of: GetViewCurvesResponse, c: ViewCurve, last: ViewCurvePoint): Drawn {
  const steps = stepsOf(of)
  const share = c.figure.startsWith('shares.')
  const highest = c.points.reduce((a, b) => (b.highest >= a.highest ? b : a), last)
  // From 0 to the highest, and shares to all that there is at least.
  const top = Math.max(share ? 1000 : 1, Number(highest.highest))
  const y = (n: bigint) => Math.round(curveHeight * 10 * (1 - Number(n) / top)) / 10
  const begin = of.beginTime ? timestampMs(of.beginTime) : 0
  const end = of.endTime ? timestampMs(of.endTime) : 0
  const x = (p: ViewCurvePoint) =>
    Math.round(((p.time ? timestampMs(p.time) : begin) - begin) / ((end - begin) / Math.max(1, steps - 1)))
  let line = ''
  let ground = ''
  let before = -1
  for (const p of c.points) {
    const at = x(p)
    const joined = before >= 0 && at === before + 1
    line += joined ? `V${y(p.last)}H${at + 1}` : `M${at} ${y(p.last)}H${at + 1}`
    if (!joined) ground += `${before >= 0 ? `V${curveHeight}Z` : ''}M${at} ${curveHeight}`
    ground += `V${y(p.highest)}H${at + 1}`
    before = at
  }
  const show = (n: bigint) =>
    `${c.sampled > 0 ? '≈ ' : ''}${share ? `${Math.round(Number(n) / 10)} %` : Number(n).toLocaleString()}`
  const past = (p: ViewCurvePoint) => (p.time && timestampMs(p.time) < end ? p.time : undefined)
  return {
    figure: c.figure,
    title: titles[c.figure] ?? c.figure,
    last: show(last.last),
    lastTime: past(last),
    highest: show(highest.highest),
    highestTime: past(highest),
    line,
    ground: `${ground}V${curveHeight}Z`,
    gaps: c.points.length < steps,
    clusters: last.clusters,
  }
}
