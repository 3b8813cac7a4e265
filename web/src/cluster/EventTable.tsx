import { When } from '../live/When'
import { State } from '../state/State'
import { Export } from '../ui/Export'
import { plain } from '../ui/text'
import { type ClusterEvent, timeOf } from './events'

const columns = ['time', 'count', 'type', 'kind', 'namespace', 'name', 'reason', 'message']

const countOf = (e: ClusterEvent) => e.series?.count ?? e.count ?? 1

// Events as a cluster tells them, and the name of the file that they are saved as. named: they are of several objects.
export function EventTable({
  events,
  file,
  named = false,
}: {
  events: ClusterEvent[]
  file: string
  named?: boolean
}) {
  if (events.length === 0) return <p>The cluster tells of no event; it keeps them for an hour.</p>
  const titles = ['When', 'Type', ...(named ? ['Object'] : []), 'Reason', 'Message']
  return (
    <>
      <Export
        name={file}
        columns={columns}
        rows={events.map((e) => ({
          time: timeOf(e),
          count: String(countOf(e)),
          type: e.type ?? '',
          kind: e.involvedObject?.kind ?? '',
          namespace: e.involvedObject?.namespace ?? '',
          name: e.involvedObject?.name ?? '',
          reason: e.reason ?? '',
          message: e.message ?? '',
        }))}
      />
      <div className="table-wrap">
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
            {events.map((e) => (
              <tr key={e.metadata?.uid}>
                <td>
                  <When of={timeOf(e)} />
                  {countOf(e) > 1 && ` ×${countOf(e)}`}
                </td>
                <td>
                  {e.type === 'Warning' && <State of="degraded" word="warning" />} {plain(e.type ?? '', 40)}
                </td>
                {named && (
                  <td>{plain(`${e.involvedObject?.kind ?? ''} ${e.involvedObject?.name ?? ''}`, 320)}</td>
                )}
                <td>{plain(e.reason ?? '', 120)}</td>
                <td>{plain(e.message ?? '', 2000)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  )
}
