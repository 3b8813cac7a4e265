import { useQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import { Link } from 'react-router'
import { askOf } from '../../cluster/request'
import { findingOf } from '../../cluster/why'
import type { Service } from '../../gen/fairlead/console/v1/resources_pb'
import { failureOf } from '../../hub/errors'
import { clock } from '../../live/ages'
import { When } from '../../live/When'
import { Failed } from '../../ui/Panel'
import { amount, plain } from '../../ui/text'
import { explored } from './grouped'

// What the cluster itself says of the objects that are not well: asked of its API server as the person, and dated.
export default function Why({ of }: { of: Service }) {
  const cluster = of.spec?.cluster ?? ''
  const ask = useMemo(() => askOf(cluster), [cluster])
  const objects = (of.status?.cluster?.report?.objects ?? []).map(({ group, kind, namespace, name }) => ({
    group,
    kind,
    namespace,
    name,
  }))
  const got = useQuery({
    queryKey: ['why', cluster, objects],
    enabled: objects.length > 0,
    queryFn: () => findingOf(ask, objects),
    refetchInterval: 15_000,
  })
  if (objects.length === 0) return null
  const again = () => void got.refetch()
  if (got.error && !got.data) return <Failed failure={failureOf(got.error)} again={again} />
  if (got.isPending)
    return (
      <p className="quiet" role="status">
        Asking {plain(cluster, 63)} for pods, events and last lines…
      </p>
    )
  const found = got.data
  if (!found) return null
  const at = explored(cluster, found)
  return (
    <div className={got.error ? 'stale' : ''}>
      <p>
        <strong>{plain(`${found.kind} ${found.name}`, 320)}</strong>
        {found.container && ` ${plain(found.container, 120)}`}
        {found.words && `: ${plain(found.words, 1000)}`}
        {found.restarts > 0 && `, ${amount(found.restarts, 'restart')}`}{' '}
        <span className="quiet">
          asked {clock(got.dataUpdatedAt)}{' '}
          <button type="button" onClick={again}>
            Again
          </button>
        </span>
      </p>
      {found.lines.length > 0 && (
        <>
          <p className="quiet">{found.previous ? 'Its last lines before the restart:' : 'Its last lines:'}</p>
          <pre className="command">{found.lines.map((l) => plain(l, 1000)).join('\n')}</pre>
        </>
      )}
      {found.noLog && <p className="quiet">No log: {plain(found.noLog, 600)}</p>}
      {found.events.length > 0 && (
        <ul className="lines">
          {found.events.map((e) => (
            <li key={`${e.time}${e.reason}${e.message}`}>
              {e.time && <When of={e.time} />} {plain(e.reason, 120)}: {plain(e.message, 1000)}
            </li>
          ))}
        </ul>
      )}
      <p className="actions">
        <Link
          className="button"
          to={`?${new URLSearchParams({ tab: 'logs', ...(found.previous ? { prev: '1' } : {}) })}`}
        >
          Logs
        </Link>
        <Link className="button" to={at}>
          {plain(found.kind, 63)}
        </Link>
        <Link className="button" to={`${at}&tab=events`}>
          Events
        </Link>
        {found.kind === 'Pod' && (
          <Link className="button" to={`${at}&tab=shell`}>
            Shell
          </Link>
        )}
      </p>
    </div>
  )
}
