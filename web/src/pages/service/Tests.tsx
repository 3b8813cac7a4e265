import { timestampMs } from '@bufbuild/protobuf/wkt'
import { useQuery } from '@connectrpc/connect-query'
import { TestService } from '../../gen/fairlead/console/v1/test_service_pb'
import { TestCause, TestOutcome } from '../../gen/fairlead/delivery/v1/tests_pb'
import { failureOf } from '../../hub/errors'
import { Age } from '../../live/Age'
import { State } from '../../state/State'
import type { State as Name } from '../../state/states'
import { Ask, useLever } from '../../ui/Ask'
import { Opened } from '../../ui/Opened'
import { Failed, Waiting } from '../../ui/Panel'
import { Said } from '../../ui/Said'
import { plain, shortCommit } from '../../ui/text'
import { took } from './History'

const outcomes: Record<number, [Name, string]> = {
  [TestOutcome.RUNNING]: ['progressing', 'running'],
  [TestOutcome.PASSED]: ['healthy', 'passed'],
  [TestOutcome.FAILED]: ['failed', 'failed'],
  [TestOutcome.TIMED_OUT]: ['failed', 'took too long'],
  [TestOutcome.ABORTED]: ['pending', 'ended early'],
  [TestOutcome.ERROR]: ['degraded', 'could not run'],
  [TestOutcome.SKIPPED]: ['pending', 'left out'],
}
const causes: Record<number, string> = {
  [TestCause.REQUEST]: 'asked for',
  [TestCause.REVISION]: 'new revision',
  [TestCause.SCHEDULE]: 'by schedule',
}

// The last runs of the service's tests, the newest first, with cases and logs of what failed.
export function Tests({ service, changed }: { service: string; changed: () => void }) {
  const list = useQuery(TestService.method.listTestRuns, { service, pageSize: 20 })
  const run = useLever(TestService.method.runTests, () => {
    changed()
    void list.refetch()
  })
  return (
    <>
      <div className="actions">
        <Ask
          verb="Run the tests"
          title={`Run the tests of ${service}`}
          words="The agent runs the service's tests in the cluster, on what is applied now."
          lever={run}
          request={() => ({ service })}
        />
      </div>
      {list.error && !list.data && (
        <Failed failure={failureOf(list.error)} again={() => void list.refetch()} />
      )}
      {list.isPending && <Waiting what="the runs of tests" />}
      {list.data?.runs.length === 0 && (
        <p>No test has run. A service has tests if its manifests mark them as such.</p>
      )}
      {list.data?.runs.map((r) => (
        <section className="panel" key={r.id}>
          <h2>
            <Outcome of={r.outcome} /> <span className="mono">{shortCommit(r.commit)}</span>{' '}
            <span className="quiet">
              {causes[r.cause] ?? ''} <Age of={r.startTime} /> ago
              {r.startTime &&
                r.endTime &&
                `, took ${took(timestampMs(r.endTime) - timestampMs(r.startTime))}`}
            </span>
          </h2>
          {r.message && (
            <p>
              <Said of={r.message} max={2000} />
            </p>
          )}
          {r.results.map((t) => (
            <Opened
              key={`${t.kind}/${t.namespace}/${t.name}`}
              name={`${r.id} ${t.kind}/${t.namespace}/${t.name}`}
              byItself={t.outcome === TestOutcome.FAILED}
              summary={
                <>
                  <Outcome of={t.outcome} /> {plain(`${t.kind} ${t.namespace}/${t.name}`, 300)}{' '}
                  {t.casesPassed + t.casesFailed > 0 && (
                    <span className="quiet">
                      {t.casesPassed} passed, {t.casesFailed} failed
                    </span>
                  )}
                </>
              }
            >
              {t.message && (
                <p>
                  <Said of={t.message} max={2000} />
                </p>
              )}
              {t.log && <pre>{plain(t.log, 64 << 10)}</pre>}
            </Opened>
          ))}
        </section>
      ))}
    </>
  )
}

function Outcome({ of }: { of: TestOutcome }) {
  const [state, word] = outcomes[of] ?? ['unknown', 'unknown']
  return <State of={state} word={word} />
}
