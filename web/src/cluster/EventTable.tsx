import { Since } from '../live/Since'
import { State } from '../state/State'
import { plain } from '../ui/text'
import { type ClusterEvent, timeOf } from './events'

// Events as a cluster tells them. named: they are of several objects.
export function EventTable({ events, named = false }: { events: ClusterEvent[]; named?: boolean }) {
  if (events.length === 0) return <p>The cluster tells of no event; it keeps them for an hour.</p>
  const titles = ['When', 'Type', ...(named ? ['Object'] : []), 'Reason', 'Message']
  return (
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
                <Since of={timeOf(e)} />
                {(e.series?.count ?? e.count ?? 1) > 1 && ` ×${e.series?.count ?? e.count}`}
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
  )
}
