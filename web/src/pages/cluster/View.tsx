import { useQuery } from '@connectrpc/connect-query'
import { Link } from 'react-router'
import { ClusterViewService } from '../../gen/fairlead/console/v1/cluster_view_service_pb'
import { ViewSetService } from '../../gen/fairlead/console/v1/view_set_service_pb'
import { SectionState, type ViewRow, type ViewSection } from '../../gen/fairlead/delivery/v1/views_pb'
import { failureOf } from '../../hub/errors'
import { Age } from '../../live/Age'
import { useFreshness } from '../../live/asked'
import { useLive } from '../../live/live'
import {
  cellWords,
  cores,
  count,
  credentialWords,
  deprecatedWords,
  explored,
  type Figures,
  follows,
  isSet,
  memory,
  podStates,
  said,
  setName,
  setWords,
  share,
  usedWords,
  type Word,
} from '../../state/views'
import { Curves } from '../../ui/Curves'
import { Export } from '../../ui/Export'
import { Failed, Stale, Waiting } from '../../ui/Panel'
import { Said } from '../../ui/Said'
import { amount, isoOf, plain } from '../../ui/text'

// What the agent sees in its cluster, as it pushed it. The cluster is not asked, so that one that is away shows its last view.
export function View({ cluster }: { cluster: string }) {
  const got = useLive(ClusterViewService.method.getClusterView, { cluster })
  const fresh = useFreshness([got])
  const again = () => void got.refetch()
  const view = got.data?.view
  if (got.error && !view) return <Failed failure={failureOf(got.error)} again={again} />
  if (!view) return <Waiting what="the view of the cluster" />
  if (view.missing)
    return (
      <section className="panel" aria-label="In the cluster">
        <h2>In the cluster</h2>
        <p>
          Nothing is known: <Said of={view.missing} max={600} />.
        </p>
      </section>
    )
  const section = (name: string) => view.sections.find((s) => s.name === name)
  const f = view.figures
  const of = { cluster, hidden: view.rowsHidden }
  return (
    <section aria-label="In the cluster" className="view">
      <div className="head">
        <h2>In the cluster</h2>
        <span className="quiet">
          {view.unfollowed ? (
            <>
              <Said of={view.unfollowed} max={300} />; changed <Age of={view.updateTime} /> ago
            </>
          ) : view.connected ? (
            <>
              followed; changed <Age of={view.updateTime} /> ago
            </>
          ) : (
            <>
              the cluster is away: as of <Age of={view.lastSeenTime} /> ago
            </>
          )}
        </span>
        <span className="end">
          <Export
            name={`${cluster}-view`}
            columns={rowColumns}
            rows={view.sections.flatMap((s) => s.rows.map((r) => rowOf(s.name, r)))}
          />
        </span>
      </div>
      <Stale of={fresh} again={again} />
      <Curves cluster={cluster} />
      <div
        className={
          follows(view) ? (fresh.stale || fresh.failure ? 'columns stale' : 'columns') : 'columns away'
        }
      >
        <Part title="Pods" to="core/v1/pods" of={of} section={section('pods')} figures={<Pods of={f} />}>
          {(r) => (
            <>
              {r.service && <Link to={`/service/${r.service}`}>{r.service}</Link>} {restarts(r)}
              {r.node && <span className="quiet"> on {plain(r.node, 253)}</span>}
            </>
          )}
        </Part>
        <Part
          title="Workloads"
          to="apps/v1/deployments"
          of={of}
          section={section('workloads')}
          figures={
            <Line
              of={[
                [`${count(f['workloads.total'])} in all`],
                [`${count(f['workloads.not_well'])} not well`, f['workloads.not_well']],
                [
                  `${count(f['workloads.ready'])} of ${amount(f['workloads.desired'], 'replica')} ready`,
                  f['workloads.desired'],
                  true,
                ],
                [`${amount(f['workloads.jobs_failed'], 'job')} failed`, f['workloads.jobs_failed']],
              ]}
            />
          }
        >
          {(r) => r.service && <Link to={`/service/${r.service}`}>{r.service}</Link>}
        </Part>
        <Part
          title="Nodes"
          to="core/v1/nodes"
          of={of}
          section={section('nodes')}
          rows={(r) => r.reason !== 'Ready'}
          figures={
            <>
              <Line
                of={[
                  [`${count(f['nodes.ready'])} of ${count(f['nodes.total'])} are ready`],
                  [`${count(f['nodes.pressure'])} under pressure`, f['nodes.pressure']],
                  [`${count(f['nodes.cordoned'])} cordoned`, f['nodes.cordoned']],
                  [`${count(f['nodes.skewed'])} with a version too far from the server's`, f['nodes.skewed']],
                ]}
              />
              <Line
                of={[
                  [`CPU requested: ${share(f, 'requests.cpu', 'nodes.cpu_allocatable', cores)}`],
                  [
                    `memory: ${share(f, 'requests.memory', 'nodes.memory_allocatable', memory)}`,
                    f['requests.memory'],
                    true,
                  ],
                ]}
              />
            </>
          }
        >
          {(r) => <span className="quiet">{plain(r.version, 64)}</span>}
        </Part>
        <Part
          title="Warnings of the last hour"
          to="core/v1/events"
          of={of}
          section={section('warnings')}
          figures={
            <Line
              of={[
                [`${f['warnings.at_least'] ? 'at least ' : ''}${count(f['warnings.hour'])}`],
                [`in ${amount(f['warnings.groups'], 'group')}`, f['warnings.groups']],
              ]}
            />
          }
        >
          {(r) => (
            <>
              <strong>{amount(r.figures.hour, 'time')}</strong>, last <Age of={r.lastTime} /> ago
            </>
          )}
        </Part>
        <Part
          title="Images that can't be pulled"
          of={of}
          section={section('pulls')}
          figures={
            <Line
              of={[
                [amount(f['pulls.images'], 'image')],
                [`${amount(f['pulls.pods'], 'pod')} waiting`, f['pulls.pods']],
              ]}
            />
          }
        >
          {(r) => amount(r.figures.pods, 'pod')}
        </Part>
        <Part
          title="Volume claims"
          to="core/v1/persistentvolumeclaims"
          of={of}
          section={section('claims')}
          figures={
            <Line
              of={[
                [`${count(f['claims.bound'])} of ${count(f['claims.total'])} are bound`],
                [`${count(f['claims.pending'])} pending`, f['claims.pending']],
                [`${count(f['claims.lost'])} lost`, f['claims.lost']],
              ]}
            />
          }
        >
          {() => null}
        </Part>
        <Part title="What nodes use" of={of} section={section('used')} figures={<Line of={usedWords(f)} />}>
          {() => null}
        </Part>
        {view.sections
          .filter((s) => isSet(s.name))
          .map((s) => (
            <OfSet key={s.name} of={of} section={s} />
          ))}
        <Part
          title="Deprecated APIs in use"
          of={of}
          section={section('deprecated')}
          figures={<Line of={deprecatedWords(f)} />}
        >
          {(r) => r.version && <span className="quiet">gone in Kubernetes {plain(r.version, 64)}</span>}
        </Part>
        <Part
          title="Credentials of the agent"
          of={of}
          section={section('agent')}
          figures={<Line of={credentialWords(f)} />}
        >
          {() => null}
        </Part>
      </div>
    </section>
  )
}

const restarts = (r: ViewRow) => (r.figures.restarts ? amount(r.figures.restarts, 'restart') : '')

// Words of figures, with a comma between them.
function Line({ of }: { of: Word[] }) {
  return <p>{said(of).join(', ')}</p>
}

function Pods({ of }: { of: Figures }) {
  const states = podStates(of)
  return (
    <>
      <Line
        of={[
          [`${count(of['pods.total'])} in all`],
          [`${count(of['pods.not_ready'])} not ready`, of['pods.not_ready'], true],
          [
            `${of['restarts.at_least'] ? 'at least ' : ''}${amount(of['restarts.hour'], 'restart')} in the last hour`,
            of['restarts.hour'],
            true,
          ],
          [`${count(of['restarts.oom_killed_hour'])} killed for memory`, of['restarts.oom_killed_hour']],
        ]}
      />
      <p className="quiet">{states.map(([name, n]) => `${count(n)} ${plain(name, 80)}`).join(', ')}</p>
    </>
  )
}

// What a ViewSet counts and lists. Whoever may not see the ViewSet itself sees its cells without their heads.
function OfSet({ of, section }: { of: { cluster: string; hidden: boolean }; section: ViewSection }) {
  const name = setName(section.name)
  const got = useQuery(ViewSetService.method.getViewSet, { name }, { retry: false, staleTime: 60_000 })
  const heads = got.data?.viewSet?.spec?.columns.map((c) => c.name) ?? []
  return (
    <Part
      title={name}
      of={of}
      section={section}
      figures={
        <>
          <Line of={setWords(section.figures)} />
          {section.state === SectionState.WHOLE && section.reason && (
            <p className="quiet">
              <Said of={section.reason} max={512} />
            </p>
          )}
        </>
      }
    >
      {(r) => (
        <span className="quiet">
          {cellWords(heads, r.cells)
            .map((w) => plain(w, 100))
            .join(', ')}
        </span>
      )}
    </Part>
  )
}

const rowColumns = [
  'section',
  'reason',
  'kind',
  'namespace',
  'name',
  'service',
  'node',
  'since',
  'text',
  'figures',
]

const rowOf = (section: string, r: ViewRow) => ({
  section,
  reason: r.reason,
  kind: r.kind,
  namespace: r.namespace,
  name: r.name,
  service: r.service,
  node: r.node,
  since: isoOf(r.sinceTime),
  text: r.text,
  figures: Object.entries(r.figures)
    .map(([name, n]) => `${name}=${n}`)
    .sort()
    .join(' '),
})

function Part({
  title,
  to,
  of,
  section,
  rows = () => true,
  figures,
  children,
}: {
  title: string
  // Where the explorer lists the kind.
  to?: string
  of: { cluster: string; hidden: boolean }
  section: ViewSection | undefined
  // Which rows are shown.
  rows?: (r: ViewRow) => boolean
  figures: React.ReactNode
  children: (r: ViewRow) => React.ReactNode
}) {
  if (!section) return null
  const shown = section.rows.filter(rows)
  return (
    <section className="panel" aria-label={title}>
      <div className="head">
        <h2>{title}</h2>
        {to && (
          <span className="end">
            <Link to={`/cluster/${of.cluster}/explore/${to}`}>Explore</Link>
          </span>
        )}
      </div>
      <Trust of={section} />
      {figures}
      <ul className="lines">
        {shown.map((r) => {
          const at = explored(of.cluster, r)
          const words = `${r.namespace ? `${r.namespace}/` : ''}${r.name}`
          return (
            <li key={r.key}>
              <strong>{plain(r.reason, 128)}</strong>{' '}
              {at ? (
                <Link to={at}>{plain(words, 320)}</Link>
              ) : (
                plain(`${r.kind === 'Image' ? '' : `${r.kind} `}${words}`, 320)
              )}{' '}
              {children(r)}{' '}
              {r.sinceTime && (
                <span className="quiet">
                  since <Age of={r.sinceTime} />
                </span>
              )}
              {r.text && <div className="quiet">{plain(r.text, 300)}</div>}
            </li>
          )
        })}
      </ul>
      {section.withheld > 0n && (
        <p className="quiet">{count(section.withheld)} more are counted and not listed.</p>
      )}
      {of.hidden && (
        <p className="quiet">Names are for people who may read the Kubernetes API of the cluster.</p>
      )}
    </section>
  )
}

// How far a section can be trusted, where it is not followed as a whole.
function Trust({ of }: { of: ViewSection }) {
  const words = {
    [SectionState.READING]: 'The agent reads it: these are the figures of before.',
    [SectionState.DENIED]: 'The agent may not read it.',
    [SectionState.STALE]: 'The API server does not answer the agent: these are the figures of before.',
  }[of.state as number]
  return (
    <>
      {words && (
        <p className="cause">
          ? {words} <Said of={of.reason} max={512} />
        </p>
      )}
      {of.sample > 1 && (
        <p className="cause">One of {of.sample} objects was counted, and the figures multiplied.</p>
      )}
    </>
  )
}
