import { Link, useParams } from 'react-router'
import { Kind } from '../../gen/fairlead/console/v1/catalog_service_pb'
import { LiveService } from '../../gen/fairlead/console/v1/live_service_pb'
import type { Head } from '../../gen/fairlead/console/v1/resources_pb'
import { SourceService } from '../../gen/fairlead/console/v1/source_service_pb'
import { failureOf, isMissing } from '../../hub/errors'
import { quote } from '../../hub/filter'
import { Age } from '../../live/Age'
import { useFreshness } from '../../live/asked'
import { useLive } from '../../live/live'
import { State } from '../../state/State'
import { chartOf, shownRef, urlOf, wordOf } from '../../state/sources'
import { isState, worstFirst } from '../../state/states'
import Changes from '../../ui/Changes'
import { Copied } from '../../ui/Copied'
import { Delete } from '../../ui/Delete'
import Deleted from '../../ui/Deleted'
import { EventsOf } from '../../ui/EventsOf'
import { Export } from '../../ui/Export'
import { Failed, Stale, Title, Waiting } from '../../ui/Panel'
import { kindNamed, manifest, type ResourceKind } from '../../ui/resources'
import { Said } from '../../ui/Said'
import { Tabs, useTab } from '../../ui/Tabs'
import { isoOf, plain, sentence, shortCommit } from '../../ui/text'
import { ChartValues } from './ChartValues'
import { Commits } from './Commits'
import { Files } from './Files'
import { Polls } from './Polls'

const tabs = ['refs', 'commits', 'files', 'services', 'events', 'yaml']
// Repositories of charts have no history, and of each version's files the values.
const tabsOfCharts = ['refs', 'values', 'services', 'events', 'yaml']

const kind = kindNamed('Source') as ResourceKind

export function Source() {
  const { name = '' } = useParams()
  const got = useLive(SourceService.method.getSource, { name })
  const fresh = useFreshness([got])
  const again = () => void got.refetch()
  const missing = isMissing(got.error)
  const of = missing ? undefined : got.data?.source
  const shownTabs = of?.spec?.helm ? tabsOfCharts : tabs
  const tab = useTab(shownTabs)
  const problem = of?.status?.problem
  const word = wordOf(of)
  const failing = word === 'failing'
  const heads = of?.status?.heads ?? []
  return (
    <>
      <div className="head">
        <Title tab={`${failing ? '✕ ' : ''}${name}`}>
          {plain(name, 80)}{' '}
          {of && <State of={failing ? 'failed' : heads.length ? 'healthy' : 'pending'} word={word} />}
        </Title>
        <span className="quiet mono">{plain(urlOf(of?.spec), 300)}</span>
      </div>
      {got.error && !of ? <Failed failure={failureOf(got.error)} again={again} /> : null}
      {missing && <Deleted of={kind} name={name} back={again} />}
      {got.isPending && <Waiting what="the source" />}
      {of && <Stale of={fresh} again={again} />}
      {problem && (
        <div className={failing ? 'notice bad' : 'notice'}>
          <Said of={sentence(problem.message)} /> Since <Age of={problem.since} />
          {heads.length > 0
            ? failing && '; the last good commits are served from cache'
            : '; nothing of it was fetched yet'}
          .
        </div>
      )}
      {of && (
        <>
          <Polls name={name} changed={again} />
          <Tabs names={shownTabs} without={['chart', 'version']} />
          {tab === 'refs' && (
            <Refs name={name} heads={heads} stale={fresh.stale || fresh.failure !== undefined} />
          )}
          {tab === 'values' && <ChartValues source={name} heads={heads} />}
          {tab === 'commits' && <Commits source={name} heads={heads} />}
          {tab === 'files' && <Files source={name} heads={heads} />}
          {tab === 'services' && <Users name={name} />}
          {tab === 'events' && (
            <EventsOf filter={`source = ${quote(name)}`} size={50} name={`${name}-events`} />
          )}
          {tab === 'yaml' && (
            <div className="panel">
              <div className="actions">
                <Link className="button" to={`/apply?kind=Source&name=${encodeURIComponent(name)}`}>
                  Edit
                </Link>
                <Copied text={manifest(kind, of)} />
                <Delete of={kind} name={name} to="/sources" />
              </div>
              <pre>{manifest(kind, of)}</pre>
            </div>
          )}
          {tab === 'yaml' && <Changes of={kind} name={name} />}
        </>
      )}
    </>
  )
}

// What services get of it. Versions that a range keeps out are told: nothing follows them by itself.
function Refs({ name, heads, stale }: { name: string; heads: Head[]; stale: boolean }) {
  const newer = heads.some((h) => h.newerVersion)
  const titles = [
    'Ref',
    'Commit',
    'Subject',
    'Author',
    'Fetched',
    'Signed by',
    ...(newer ? ['Newer version'] : []),
  ]
  return (
    <>
      <Export
        name={`${name}-refs`}
        columns={['ref', 'resolved', 'commit', 'subject', 'author', 'fetched', 'signed_by', 'newer_version']}
        rows={heads.map((h) => ({
          ref: h.ref,
          resolved: h.resolvedRef,
          commit: h.revision?.commit ?? '',
          subject: h.revision?.subject ?? '',
          author: h.revision?.author ?? '',
          fetched: isoOf(h.fetchTime),
          signed_by: h.signedBy,
          newer_version: h.newerVersion,
        }))}
      />
      <div className={stale ? 'table-wrap stale' : 'table-wrap'}>
        <table>
          <thead>
            <tr>
              {titles.map((t) => (
                <th scope="col" key={t}>
                  {t}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {heads.slice(0, 500).map((h) => (
              <tr key={h.ref}>
                <td className="name">
                  {plain(shownRef(h.ref), 200)}{' '}
                  {h.resolvedRef && <span className="quiet">{plain(shownRef(h.resolvedRef), 200)}</span>}
                </td>
                <td className="mono">{shortCommit(h.revision?.commit)}</td>
                <td>{plain(h.revision?.subject ?? '', 300)}</td>
                <td>{plain(h.revision?.author ?? '', 100)}</td>
                <td>
                  <Age of={h.fetchTime} />
                </td>
                <td className="mono">{plain(h.signedBy, 100)}</td>
                {newer && (
                  <td>
                    <NewerVersion of={h} />
                  </td>
                )}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {heads.length > 500 && (
        <p className="quiet">500 of {heads.length.toLocaleString()} are shown; CSV and YAML have all.</p>
      )}
    </>
  )
}

function NewerVersion({ of }: { of: Head }) {
  const { chart } = chartOf(of.ref) ?? {}
  if (!chart || !of.newerVersion) return plain(of.newerVersion, 100)
  const values = (version: string) => `?${new URLSearchParams({ tab: 'values', chart, version })}`
  return (
    <>
      {plain(of.newerVersion, 100)} <Link to={values(of.newerVersion)}>its values</Link>
    </>
  )
}

function Users({ name }: { name: string }) {
  const filter = `source = ${quote(name)}`
  const counts = useLive(LiveService.method.countResources, {
    kind: Kind.SERVICE,
    filter,
    groupBy: ['state'],
  })
  if (counts.error && !counts.data) return <Failed failure={failureOf(counts.error)} />
  if (!counts.data) return <Waiting what="its services" />
  const states = worstFirst.filter((s) => counts.data?.counts.some((c) => c.values[0] === s))
  return (
    <div className="counters">
      {states.filter(isState).map((s) => (
        <Link key={s} to={`/services?q=${encodeURIComponent(`${filter} AND state = ${s}`)}`}>
          <State of={s} />
          <strong>{counts.data?.counts.find((c) => c.values[0] === s)?.count}</strong>
        </Link>
      ))}
      {states.length === 0 && <p>No service uses it.</p>}
    </div>
  )
}
