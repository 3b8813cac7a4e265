import { type Timestamp, timestampMs } from '@bufbuild/protobuf/wkt'
import { useQuery } from '@connectrpc/connect-query'
import { lazy, useState } from 'react'
import type { Service } from '../../gen/fairlead/console/v1/resources_pb'
import {
  type Deployment,
  DeploymentCause,
  DeploymentOutcome,
  RevisionService,
} from '../../gen/fairlead/console/v1/revision_service_pb'
import { SyncMode } from '../../gen/fairlead/delivery/v1/options_pb'
import { failureOf } from '../../hub/errors'
import { useFreshness } from '../../live/asked'
import { When } from '../../live/When'
import { State } from '../../state/State'
import type { State as Name } from '../../state/states'
import { Ask, useLever } from '../../ui/Ask'
import { Export } from '../../ui/Export'
import { Empty, Pager, usePages } from '../../ui/Pager'
import { Failed, Stale, Waiting } from '../../ui/Panel'
import { Part } from '../../ui/Part'
import { Said } from '../../ui/Said'
import { isoOf, plain, shortCommit } from '../../ui/text'

const Back = lazy(() => import('./Back'))

const size = 30

const outcomes: Record<number, [Name, string]> = {
  [DeploymentOutcome.RUNNING]: ['progressing', 'on its way'],
  [DeploymentOutcome.HEALTHY]: ['healthy', ''],
  [DeploymentOutcome.DEGRADED]: ['degraded', ''],
  [DeploymentOutcome.FAILED]: ['failed', ''],
  [DeploymentOutcome.OVERTAKEN]: ['pending', 'a newer one came first'],
}
const causes: Record<number, string> = {
  [DeploymentCause.COMMIT]: 'commit',
  [DeploymentCause.SPEC]: 'spec',
  [DeploymentCause.CONFIG]: 'configuration',
  [DeploymentCause.ROLLBACK]: 'rollback',
  [DeploymentCause.PIN]: 'pin',
}

// What was delivered, how long each step took, and the way back to it.
export function History({ of, changed }: { of: Service; changed: () => void }) {
  const service = of.metadata?.name ?? ''
  const pages = usePages(service)
  const list = useQuery(RevisionService.method.listDeployments, {
    service,
    pageSize: size,
    pageToken: pages.token,
  })
  const fresh = useFreshness([list])
  const again = () => void list.refetch()
  if (list.error && !list.data)
    return (
      <>
        <Failed failure={failureOf(list.error)} again={again} />
        <Pager pages={pages} next="" size={size} total={undefined} />
      </>
    )
  if (!list.data) return <Waiting what="the history" />
  const pager = <Pager pages={pages} next={list.data.nextPageToken} size={size} total={undefined} />
  if (list.data.deployments.length === 0)
    return (
      <>
        <Stale of={fresh} again={again} />
        <Empty pages={pages}>
          <p>Nothing was delivered yet.</p>
        </Empty>
        {pager}
      </>
    )
  return (
    <>
      <Stale of={fresh} again={again} />
      <Export name={`${service}-history`} columns={columns} rows={list.data.deployments.map(rowOf)} />
      <div className={fresh.stale || fresh.failure ? 'table-wrap stale' : 'table-wrap'}>
        <table>
          <thead>
            <tr>
              {[
                '#',
                'Outcome',
                'When',
                'Cause',
                'Commit',
                'Fetched',
                'Delivered',
                'Applied',
                'Healthy',
                '',
              ].map((t) => (
                <th scope="col" key={t}>
                  {t}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {list.data.deployments.map((d, i, all) => {
              const [state, note] = outcomes[d.outcome] ?? ['unknown', '']
              return (
                <tr key={String(d.number)}>
                  <td>{String(d.number)}</td>
                  <td>
                    <State of={state} /> {note && <span className="quiet">{note}</span>}
                    {d.message && (
                      <div className="cause">
                        <Said of={d.message} max={400} />
                      </div>
                    )}
                  </td>
                  <td>
                    <When of={d.deliverTime ?? d.fetchTime} />
                  </td>
                  <td>
                    {causes[d.cause] ?? ''} {plain(d.author, 100)}
                  </td>
                  <td>
                    <span className="mono">{shortCommit(d.commit?.commit)}</span>{' '}
                    {plain(d.commit?.subject ?? '', 120)}
                    <div className="quiet">{newPlace(d, all.slice(i + 1))}</div>
                  </td>
                  {steps(d).map(([name, text]) => (
                    <td key={name}>{text}</td>
                  ))}
                  <td>
                    <RollBack of={of} to={d} changed={changed} />
                  </td>
                </tr>
              )
            })}
          </tbody>
        </table>
      </div>
      {pager}
    </>
  )
}

// Each deployment has its own: what the hub answers to one is said beside that one.
function RollBack({ of, to, changed }: { of: Service; to: Deployment; changed: () => void }) {
  const service = of.metadata?.name ?? ''
  const rollback = useLever(RevisionService.method.rollbackService, changed)
  return (
    <Ask
      verb="Roll back"
      title={`Roll ${service} back to #${to.number}`}
      words={`Commit ${shortCommit(to.commit?.commit)} with the spec of then is delivered.`}
      lever={rollback}
      wants
      choices={[
        ['Until the ref points to another commit', 'next'],
        ['Until somebody unpins it', 'stay'],
      ]}
      ends
      request={(reason, way, until) => ({
        service,
        deployment: to.number,
        reason,
        keep: way === 'stay',
        ...until,
      })}
    >
      {insteadOf(of, to)} {ofHold(of)}
      <Preview of={of} to={to} />
    </Ask>
  )
}

// What a rollback takes the cluster from, and to.
function insteadOf(of: Service, d: Deployment): string {
  const applied = of.status?.cluster?.report?.appliedCommit ?? ''
  const to = d.commit?.commit ?? ''
  if (!applied || !to) return ''
  if (applied === to) return `The cluster has the commit ${shortCommit(to)} already.`
  return plain(
    `The cluster goes from ${shortCommit(applied)} to ${shortCommit(to)} "${d.commit?.subject ?? ''}" by ${d.commit?.author ?? ''}.`,
    400,
  )
}

// What becomes of a hold.
const ofHold = (of: Service) =>
  of.spec?.sync?.mode === SyncMode.HOLD
    ? 'It is held: the rollback takes the place of the hold, and is kept until somebody unpins it.'
    : ''

// What it would change. It is asked for when a person opens it.
function Preview({ of, to }: { of: Service; to: Deployment }) {
  const [open, setOpen] = useState(false)
  return (
    <details onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>What would change</summary>
      {open && (
        <Part what="the difference">
          <Back of={of} to={to} />
        </Part>
      )}
    </details>
  )
}

// Where the commit of a deployment is, unless that of the last one before it is there, too. Of some it is not known.
function newPlace(d: Deployment, before: Deployment[]): string {
  const last = before.find((b) => b.source)
  if (!d.source || (last?.source === d.source && last.path === d.path)) return ''
  return plain(`of source ${d.source}${d.path && `, folder ${d.path}`}`, 400)
}

// How long each step took after the one before it. Only a commit has steps before its delivery: what others deliver was there before.
function steps(d: Deployment): [string, string][] {
  const isCommit = d.cause === DeploymentCause.COMMIT
  const order: [string, Timestamp | undefined][] = [
    ['fetched', isCommit ? d.fetchTime : undefined],
    ['delivered', d.deliverTime],
    ['applied', d.applyTime],
    ['healthy', d.healthyTime],
  ]
  let before = d.commit?.commitTime
  return order.map(([name, at]) => {
    const text = at && before ? took(timestampMs(at) - timestampMs(before)) : ''
    before = at
    return [name, text]
  })
}

export function took(ms: number): string {
  if (ms < 0) return '0s'
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)}s`
  if (ms < 600_000) return `${Math.round(ms / 1000)}s`
  if (ms < 36_000_000) return `${Math.round(ms / 60_000)}m`
  return `${Math.round(ms / 3_600_000)}h`
}

const columns = [
  'number',
  'outcome',
  'cause',
  'author',
  'source',
  'path',
  'commit',
  'subject',
  'fetched',
  'delivered',
  'applied',
  'healthy',
  'message',
]

const rowOf = (d: Deployment) => ({
  number: String(d.number),
  outcome: outcomes[d.outcome]?.[0] ?? '',
  cause: causes[d.cause] ?? '',
  author: d.author,
  source: d.source,
  path: d.path,
  commit: d.commit?.commit ?? '',
  subject: d.commit?.subject ?? '',
  fetched: isoOf(d.fetchTime),
  delivered: isoOf(d.deliverTime),
  applied: isoOf(d.applyTime),
  healthy: isoOf(d.healthyTime),
  message: d.message,
})
