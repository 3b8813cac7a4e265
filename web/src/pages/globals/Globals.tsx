import { Link } from 'react-router'
import type { GlobalService } from '../../gen/fairlead/console/v1/global_service_service_pb'
import { Age } from '../../live/Age'
import { State } from '../../state/State'
import { Title } from '../../ui/Panel'
import { Resources } from '../../ui/Resources'
import { kindAt, type ResourceKind } from '../../ui/resources'

export function Globals() {
  return (
    <>
      <Title tab="Global services">Global services</Title>
      <p className="quiet">One service on each cluster that fits; clusters that join get it by themselves.</p>
      <Resources<GlobalService> of={kindAt('globalservice') as ResourceKind} say={(g) => <Says of={g} />} />
    </>
  )
}

export function Says({ of }: { of: GlobalService }) {
  const { clusters = 0, healthy = 0, heldBackTotal = 0, heldBackSince } = of.status ?? {}
  const name = of.metadata?.name ?? ''
  return (
    <>
      <State
        of={heldBackTotal ? 'waiting' : healthy < clusters ? 'progressing' : 'healthy'}
        word={`${healthy} of ${clusters} healthy`}
      />{' '}
      <Link to={`/services?q=${encodeURIComponent(`labels.fairlead.dev/global = ${name}`)}`}>
        its services
      </Link>{' '}
      {heldBackTotal > 0 && (
        <span className="cause">
          {heldBackTotal === 1 ? '1 removal waits' : `${heldBackTotal.toLocaleString()} removals wait`} for a
          person
          {heldBackSince && (
            <>
              , held back for <Age of={heldBackSince} />
            </>
          )}
        </span>
      )}
    </>
  )
}
