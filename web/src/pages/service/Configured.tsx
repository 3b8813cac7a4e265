import { Link } from 'react-router'
import type { Service } from '../../gen/fairlead/console/v1/resources_pb'
import { Copied } from '../../ui/Copied'
import { Delete } from '../../ui/Delete'
import { lossOfService } from '../../ui/losses'
import { kindNamed, manifest, type ResourceKind } from '../../ui/resources'

const kind = kindNamed('Service') as ResourceKind

// The service as `fairlead apply -f` takes it.
export function Configured({ of }: { of: Service }) {
  const text = manifest(kind, of)
  return (
    <div className="panel">
      <div className="actions">
        <Link
          className="button"
          to={`/apply?kind=Service&name=${encodeURIComponent(of.metadata?.name ?? '')}`}
        >
          Edit
        </Link>
        <Copied text={text} />
        <Delete of={kind} name={of.metadata?.name ?? ''} to="/services" loss={() => lossOfService(of)} />
      </div>
      <pre>{text}</pre>
    </div>
  )
}
