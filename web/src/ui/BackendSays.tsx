import type { Backend } from '../gen/fairlead/console/v1/backend_service_pb'
import { Age } from '../live/Age'
import { State } from '../state/State'
import { Said } from './Said'
import { sentence } from './text'

// When a backend was read last, and why it can't be read now.
export function BackendSays({ of }: { of: Backend }) {
  const problem = of.status?.problem
  return (
    <>
      <State
        of={problem ? 'failed' : of.status?.readTime ? 'healthy' : 'pending'}
        word={of.spec?.at.case ?? ''}
      />{' '}
      read <Age of={of.status?.readTime} />
      {problem && (
        <div className="cause">
          <Said of={sentence(problem.message)} max={600} /> Since <Age of={problem.since} />; services keep
          the values that they have.
        </div>
      )}
    </>
  )
}
