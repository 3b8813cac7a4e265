import { type Timestamp, timestampMs } from '@bufbuild/protobuf/wkt'
import { useQuery } from '@connectrpc/connect-query'
import { useEffect } from 'react'
import { DeploymentOutcome, RevisionService } from '../../gen/fairlead/console/v1/revision_service_pb'
import { traceAddress, useHub } from '../../hub/about'
import { failureOf } from '../../hub/errors'
import { Age } from '../../live/Age'
import { State } from '../../state/State'
import type { State as Name } from '../../state/states'
import { Copied } from '../../ui/Copied'
import { Failed } from '../../ui/Panel'
import { Said } from '../../ui/Said'
import { plain, shortCommit } from '../../ui/text'
import { took } from './History'

// How the first step is shown that was not done.
const stuckAs: Record<number, Name> = {
  [DeploymentOutcome.RUNNING]: 'progressing',
  [DeploymentOutcome.DEGRADED]: 'degraded',
  [DeploymentOutcome.FAILED]: 'failed',
}

// The last delivery, step by step, with how long each took.
export function Delivery({ service, version }: { service: string; version: string }) {
  const list = useQuery(RevisionService.method.listDeployments, { service, pageSize: 1 })
  const { refetch } = list
  // biome-ignore lint/correctness/useExhaustiveDependencies: another version of the service is a reason to ask
  useEffect(() => void refetch(), [version, refetch])
  const d = list.data?.deployments[0]
  if (list.error && !list.data)
    return (
      <section className="panel" aria-label="Last delivery">
        <h2>Last delivery</h2>
        <Failed failure={failureOf(list.error)} again={() => void refetch()} />
      </section>
    )
  if (!d) return null
  const steps: [string, Timestamp | undefined][] = [
    ['commit', d.commit?.commitTime],
    ['fetched', d.fetchTime],
    ['delivered', d.deliverTime],
    ['applied', d.applyTime],
    ['healthy', d.healthyTime],
  ]
  let before: Timestamp | undefined
  const stuck = stuckAs[d.outcome] ?? 'pending'
  const failed = stuck === 'failed' || stuck === 'degraded'
  const next = steps.findIndex(([, at]) => !at)
  const trace = d.commit?.traceparent.split('-')[1] ?? ''
  return (
    <section className="panel" aria-label="Last delivery">
      <h2>
        Delivery #{String(d.number)} <span className="quiet mono">{shortCommit(d.commit?.commit)}</span>{' '}
        <span className="quiet">{plain(d.commit?.subject ?? '', 120)}</span>
      </h2>
      <ol className="timeline">
        {steps.map(([name, at], i) => {
          const wait = at && before ? took(timestampMs(at) - timestampMs(before)) : ''
          before = at ?? before
          return (
            <li key={name}>
              <State
                of={at ? 'healthy' : i === next ? stuck : 'pending'}
                word={!at && i === next && failed ? `not ${name}` : name}
              />{' '}
              <span className="quiet">{wait && i > 0 ? `+${wait}` : at ? <Age of={at} /> : ''}</span>
            </li>
          )
        })}
      </ol>
      {d.message && (
        <div className="cause">
          <Said of={d.message} max={600} />
        </div>
      )}
      {trace && <Trace service={service} id={trace} />}
    </section>
  )
}

// One trace has all steps with their spans. Where the hub knows no place that shows traces, a person takes the id there.
function Trace({ service, id }: { service: string; id: string }) {
  const address = traceAddress(useHub().data?.traceUrl ?? '', id)
  return (
    <p className="quiet">
      Each step with its spans: <code>fairlead trace service {service}</code>, or trace{' '}
      {address ? (
        <a href={address} target="_blank" rel="noreferrer">
          <code>{id}</code>
        </a>
      ) : (
        <>
          <code>{plain(id, 64)}</code> <Copied text={id} what="Copy the trace's id" />
        </>
      )}
    </p>
  )
}
