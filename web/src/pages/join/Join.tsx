import { timestampMs } from '@bufbuild/protobuf/wkt'
import { createClient } from '@connectrpc/connect'
import { useMutation } from '@connectrpc/connect-query'
import { useMutation as useSteps } from '@tanstack/react-query'
import { startTransition, useEffect, useOptimistic, useRef, useState } from 'react'
import { Link, useNavigate, useParams, useSearchParams } from 'react-router'
import { ClusterService } from '../../gen/fairlead/console/v1/cluster_service_pb'
import { ServiceService } from '../../gen/fairlead/console/v1/service_service_pb'
import { hubNow } from '../../hub/clock'
import { failureOf } from '../../hub/errors'
import { quote } from '../../hub/filter'
import { transport } from '../../hub/transport'
import { age } from '../../live/ages'
import { useHubNow } from '../../live/asked'
import { useLive } from '../../live/live'
import { State } from '../../state/State'
import { stateOf } from '../../state/states'
import { Copied } from '../../ui/Copied'
import { Failed, Title, Waiting } from '../../ui/Panel'
import { plain } from '../../ui/text'
import { ensureCluster } from './ensure'

// A cluster joins step by step: one command, and then the page turns green by itself.
export function Join() {
  const { name } = useParams()
  return name ? <Walk key={name} name={name} /> : <Name />
}

function Name() {
  const navigate = useNavigate()
  const [name, setName] = useState('')
  const make = useSteps({
    mutationFn: (name: string) => ensureCluster(createClient(ClusterService, transport), name),
    onSuccess: (_, name) => navigate(`/cluster/${name}/join`),
  })
  return (
    <>
      <Title tab="Join a cluster">Join a cluster</Title>
      <form
        className="panel fields"
        onSubmit={(e) => {
          e.preventDefault()
          make.mutate(name)
        }}
      >
        <label>
          Name of the cluster
          <input
            value={name}
            onChange={(e) => setName(e.target.value)}
            required
            maxLength={63}
            pattern="[a-z0-9]([\-a-z0-9]*[a-z0-9])?"
            title="lower-case letters, digits and -, such as edge-9"
            placeholder="edge-9"
            spellCheck={false}
          />
        </label>
        {make.error && <Failed failure={failureOf(make.error)} />}
        <button type="submit" disabled={make.isPending}>
          Go on
        </button>
      </form>
      <p className="quiet">
        A cluster that the catalog does not have yet is made. One that it has stays as it is, and can join
        again.
      </p>
    </>
  )
}

function Walk({ name }: { name: string }) {
  const now = useHubNow()
  const [began] = useState(() => hubNow())
  const cluster = useLive(ClusterService.method.getCluster, { name })
  const first = useLive(ServiceService.method.listServices, {
    filter: `cluster = ${quote(name)}`,
    orderBy: 'state',
    pageSize: 1,
    readMask: { paths: ['metadata.name', 'status.state', 'status.cluster.report.applied_commit'] },
  })
  const status = cluster.data?.cluster?.status
  const reached = status?.joinTime && (status.connected || timestampMs(status.joinTime) > began)
  const best = first.data?.services[0]
  return (
    <>
      <Title tab={`Join ${name}`}>Join {plain(name, 80)}</Title>
      {cluster.error && !cluster.data ? (
        <Failed failure={failureOf(cluster.error)} again={() => void cluster.refetch()} />
      ) : null}
      {cluster.isPending && <Waiting what="the cluster" />}
      <Command name={name} />
      <section className="panel" aria-label="Steps">
        <h2>Then this happens by itself</h2>
        <ol className="lines">
          <Step
            done={Boolean(reached)}
            note={status?.joinTime ? `${age(now - timestampMs(status.joinTime))} ago` : ''}
          >
            The agent has reached the hub
          </Step>
          <Step
            done={status?.connected ?? false}
            note={
              status?.connected
                ? `agent ${plain(status.agentVersion)}, Kubernetes ${plain(status.kubernetesVersion)}`
                : ''
            }
          >
            It is connected
          </Step>
          <Step
            done={Boolean(status?.connected && status.nextPollTime)}
            note={best ? '' : 'no service is meant for this cluster yet'}
          >
            It has asked what to apply
          </Step>
          {best && (
            <Step
              done={Boolean(best.status?.cluster?.report?.appliedCommit)}
              note={`${plain(best.metadata?.name ?? '', 63)} ${stateOf(best.status?.state)}`}
            >
              It has applied a first service
            </Step>
          )}
        </ol>
        {status?.connected ? (
          <p>
            <Link className="button" to={`/cluster/${name}`}>
              Open {name}
            </Link>
          </p>
        ) : (
          now - began > 60_000 && (
            <div className="notice">
              Nothing after {age(now - began)}? Look at the agent's log:{' '}
              <code>kubectl -n fairlead-system logs deploy/fairlead-agent</code>. The cluster must be able to
              open connections to this hub's address, and trust its certificate. A command is good for 15
              minutes: make a new one.
            </div>
          )
        )}
      </section>
    </>
  )
}

function Step({ done, note, children }: { done: boolean; note: string; children: React.ReactNode }) {
  return (
    <li>
      <State of={done ? 'healthy' : 'pending'} word={done ? 'done' : 'waits'} /> {children}{' '}
      <span className="quiet">{note}</span>
    </li>
  )
}

// The manifest has a secret for 15 minutes: it is made when somebody asks, and leaves the page with it.
function Command({ name }: { name: string }) {
  const [params, setParams] = useSearchParams()
  // The address follows a moment later: until then the button would jump back to what it says.
  const [way, setWay] = useOptimistic(params.get('way') === 'file' ? 'file' : 'fairlead')
  const choose = (next: typeof way) =>
    startTransition(() => {
      setWay(next)
      setParams(next === 'file' ? { way: next } : {}, { replace: true })
    })
  const render = useMutation(ClusterService.method.renderAgentManifest)
  const save = useRef<HTMLAnchorElement>(null)
  const manifest = render.data?.manifest
  useEffect(() => {
    if (!manifest || !save.current) return
    const url = URL.createObjectURL(new Blob([manifest], { type: 'application/yaml' }))
    save.current.href = url
    save.current.click()
    return () => URL.revokeObjectURL(url)
  }, [manifest])
  const command =
    way === 'fairlead'
      ? `fairlead cluster join ${name} --context ${name}`
      : `kubectl --context ${name} apply --server-side -f ${name}-agent.yaml`
  return (
    <section className="panel">
      <h2>Run this where kubectl reaches the cluster</h2>
      <div className="actions">
        <label>
          <input type="radio" checked={way === 'fairlead'} onChange={() => choose('fairlead')} /> with the
          command fairlead
        </label>
        <label>
          <input type="radio" checked={way === 'file'} onChange={() => choose('file')} /> with kubectl and a
          file
        </label>
      </div>
      {way === 'file' && (
        <p>
          <button type="button" disabled={render.isPending} onClick={() => render.mutate({ cluster: name })}>
            {manifest ? 'New file' : 'Download the file'}
          </button>{' '}
          It holds a token that is good once, for 15 minutes.
          {/* biome-ignore lint/a11y/useValidAnchor: the browser saves what the address holds */}
          <a ref={save} download={`${name}-agent.yaml`} hidden>
            {name}-agent.yaml
          </a>
        </p>
      )}
      {render.error && <Failed failure={failureOf(render.error)} />}
      <pre className="command">{command}</pre>
      <Copied text={command} />
      <p className="quiet">
        {way === 'fairlead' && 'The context is the one of your kubeconfig; change it if it has another name.'}
      </p>
    </section>
  )
}
