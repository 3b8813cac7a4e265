import { toJson } from '@bufbuild/protobuf'
import { type Service, ServiceSchema } from '../../gen/fairlead/console/v1/resources_pb'
import { toYaml } from './yaml'

// The service as `fairlead apply -f` takes it.
export function Configured({ of }: { of: Service }) {
  const all = toJson(ServiceSchema, of) as {
    metadata?: Record<string, unknown>
    spec?: Record<string, unknown>
  }
  const { name, labels } = all.metadata ?? {}
  const text = toYaml({
    apiVersion: 'fairlead.dev/v1',
    kind: 'Service',
    metadata: labels ? { name, labels } : { name },
    spec: all.spec ?? {},
  })
  return (
    <div className="panel">
      <div className="actions">
        <button type="button" onClick={() => void navigator.clipboard.writeText(text)}>
          Copy
        </button>
      </div>
      <pre>{text}</pre>
    </div>
  )
}
