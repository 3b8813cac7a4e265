import { Link } from 'react-router'
import type { Alert, AlertGroup } from '../gen/fairlead/console/v1/alert_service_pb'
import { Age } from '../live/Age'
import { At } from '../live/At'
import { State } from '../state/State'
import { amount, plain } from './text'

const few = 5

// Where an alert fires, and what people said about it.
export function AlertSays({ of }: { of: Alert }) {
  const { firing = [], pending = 0, unknown = 0, silence } = of.status ?? {}
  return (
    <>
      <State
        of={firing.length ? 'failed' : 'healthy'}
        word={firing.some((g) => g.sinceTime) ? 'fires' : firing.length ? 'flaps' : 'quiet'}
      />{' '}
      <code>{plain(of.spec?.when ?? '', 300)}</code>
      {pending > 0 && ` · soon at ${amount(pending, 'cluster')}`}
      {unknown > 0 && ` · unknown at ${amount(unknown, 'cluster')}`}
      {silence && (
        <div className="quiet">
          silent until <At of={silence.untilTime} />, by {plain(silence.author, 120)}:{' '}
          {plain(silence.reason, 300)}
        </div>
      )}
      {firing.map((g) => (
        <Group key={g.group} of={g} />
      ))}
      {firing.length > 0 && of.spec?.description && (
        <div className="quiet">What to do: {plain(of.spec.description, 1024)}</div>
      )}
    </>
  )
}

function Group({ of }: { of: AlertGroup }) {
  const shown = of.clusters.slice(0, few)
  return (
    <div className="cause">
      {of.group && `${plain(of.group, 120)}: `}
      {shown.map((name) => (
        <span key={name}>
          <Link to={`/cluster/${name}`}>{name}</Link>{' '}
        </span>
      ))}
      {of.total > shown.length && `and ${(of.total - shown.length).toLocaleString()} more `}
      <span className="quiet">
        {of.flapsSinceTime ? (
          <>
            begins and ends again and again for <Age of={of.flapsSinceTime} />: its next event comes once it
            has not done so for 10 min
          </>
        ) : (
          <>
            for <Age of={of.sinceTime} />
          </>
        )}
        {of.unknown > 0 && (
          <>
            , nothing is known of {amount(of.unknown, 'cluster')} for <Age of={of.unknownSinceTime} />
          </>
        )}
        {of.acknowledged &&
          `, ${plain(of.acknowledged.author, 120)} works on it: ${plain(of.acknowledged.reason, 300)}`}
      </span>
    </div>
  )
}
