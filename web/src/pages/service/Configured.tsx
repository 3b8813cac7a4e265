import { Link } from 'react-router'
import type { Service } from '../../gen/fairlead/console/v1/resources_pb'
import { Copied } from '../../ui/Copied'
import { kindNamed, manifest, type ResourceKind } from '../../ui/resources'

// The service as `fairlead apply -f` takes it.
export function Configured({ of }: { of: Service }) {
  const text = manifest(kindNamed('Service') as ResourceKind, of)
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
      </div>
      <pre>{text}</pre>
    </div>
  )
}
