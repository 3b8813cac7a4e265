import { timestampMs } from '@bufbuild/protobuf/wkt'
import { useQuery } from '@connectrpc/connect-query'
import { keepPreviousData } from '@tanstack/react-query'
import { Link, useSearchParams } from 'react-router'
import { RecordingService } from '../../gen/fairlead/console/v1/recording_service_pb'
import { Age } from '../../live/Age'
import { age } from '../../live/ages'
import { Export } from '../../ui/Export'
import { questionOf, useHeld } from '../../ui/held'
import { List } from '../../ui/List'
import { Empty, Pager, usePages } from '../../ui/Pager'
import { bytesOf, isoOf, plain } from '../../ui/text'

const size = 100

// Recordings of shells in pods that the person may view, the newest first.
export function Recordings() {
  const [params, setParams] = useSearchParams()
  const [cluster, subject] = [params.get('cluster') ?? '', params.get('subject') ?? '']
  const pages = usePages(`${cluster}\n${subject}`)
  const list = useQuery(
    RecordingService.method.listRecordings,
    {
      cluster,
      subject: subject === '' || subject.includes(':') ? subject : `user:${subject}`,
      pageSize: size,
      pageToken: pages.token,
    },
    { placeholderData: keepPreviousData },
  )
  const found = list.data?.recordings
  const held = useHeld(questionOf(list, cluster, subject, pages.token), found, (r) => r.id)
  const rows = held.rows.map((r) => ({
    id: r.id,
    subject: r.subject,
    cluster: r.cluster,
    namespace: r.namespace,
    pod: r.pod,
    container: r.container,
    verb: r.verb,
    begin: isoOf(r.beginTime),
    end: isoOf(r.endTime),
    bytes: String(r.bytes),
    incomplete: r.incomplete,
  }))
  return (
    <>
      <form
        className="actions"
        key={`${cluster} ${subject}`}
        onSubmit={(e) => {
          e.preventDefault()
          const typed = new FormData(e.currentTarget)
          const next = new URLSearchParams({ tab: 'recordings' })
          for (const f of ['cluster', 'subject']) {
            const value = String(typed.get(f) ?? '').trim()
            if (value) next.set(f, value)
          }
          setParams(next)
        }}
      >
        <input
          name="subject"
          data-search
          defaultValue={subject}
          placeholder="whose: ada"
          aria-label="Whose"
        />
        <input name="cluster" defaultValue={cluster} placeholder="cluster" aria-label="Cluster" />
        <button type="submit">Filter</button>
        <Export name="recordings" columns={Object.keys(rows[0] ?? {})} rows={rows} />
      </form>
      <List
        what="recordings"
        of={list}
        count={found && held.rows.length}
        held={held}
        nothing={
          <Empty pages={pages}>
            <p>
              There is no recording that you may view. Projects have shells recorded by{' '}
              <code>spec.recording</code>, and a role may view the kind Recording.
            </p>
          </Empty>
        }
      >
        <thead>
          <tr>
            {['Whose', 'Cluster', 'Pod', 'Began', 'Lasted', 'Size'].map((t) => (
              <th scope="col" key={t}>
                {t}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {held.rows.map((r) => (
            <tr key={r.id}>
              <td className="name">
                <Link to={`/recording/${encodeURIComponent(r.id)}`}>{plain(r.subject, 300)}</Link>
              </td>
              <td>
                <Link to={`/cluster/${r.cluster}`}>{plain(r.cluster, 63)}</Link>
              </td>
              <td>
                {plain(`${r.namespace}/${r.pod} ${r.container}`, 600)}
                {r.incomplete && <div className="cause">Incomplete: {plain(r.incomplete, 600)}</div>}
              </td>
              <td>
                <Age of={r.beginTime} />
              </td>
              <td>
                {r.beginTime && r.updateTime && age(timestampMs(r.updateTime) - timestampMs(r.beginTime))}
                {!r.endTime && ', no end yet'}
              </td>
              <td>{bytesOf(Number(r.bytes))}</td>
            </tr>
          ))}
        </tbody>
      </List>
      <Pager pages={pages} next={list.data?.nextPageToken ?? ''} size={size} total={undefined} />
    </>
  )
}
