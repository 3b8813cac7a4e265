import { useMutation } from '@connectrpc/connect-query'
import { type Backend, BackendService } from '../../gen/fairlead/console/v1/backend_service_pb'
import { failureOf } from '../../hub/errors'
import { BackendSays } from '../../ui/BackendSays'
import { Failed } from '../../ui/Panel'
import { Said } from '../../ui/Said'
import { amount, plain } from '../../ui/text'

const most = 500

// How a backend of configuration was read last, and a read now: whether it lets the hub in, or which keys are at a path.
export function BackendNow({ of, changed }: { of: Backend; changed: () => void }) {
  const check = useMutation(BackendService.method.checkBackend, { onSuccess: changed })
  const path = check.variables?.path ?? ''
  const { keys = [], problem = '' } = check.data ?? {}
  return (
    <section className="panel" aria-label="Now">
      <h2>Now</h2>
      <BackendSays of={of} />
      <form
        className="actions"
        onSubmit={(e) => {
          e.preventDefault()
          check.mutate({
            backend: of,
            path: String(new FormData(e.currentTarget).get('path') ?? '').trim(),
          })
        }}
      >
        <input
          name="path"
          aria-label="Path"
          placeholder="path; none: whether it lets the hub in"
          spellCheck={false}
          maxLength={1024}
        />
        <button type="submit" disabled={check.isPending}>
          Read it now
        </button>
      </form>
      {check.isPending && <p role="status">The hub reads…</p>}
      {check.error && <Failed failure={failureOf(check.error)} />}
      {check.isSuccess && problem !== '' && (
        <div className="notice bad" role="alert">
          {path && <code>{plain(path, 1024)}</code>} <Said of={problem} max={2000} />
        </div>
      )}
      {check.isSuccess && problem === '' && (
        <div className="notice" role="status">
          {path === '' ? (
            'It can be read.'
          ) : (
            <>
              <code>{plain(path, 1024)}</code> has {amount(keys.length, 'key')}. Values are not shown.
            </>
          )}
          <ul className="lines mono">
            {keys.slice(0, most).map((k) => (
              <li key={k}>{plain(k, 253)}</li>
            ))}
          </ul>
          {keys.length > most && <p className="quiet">and {(keys.length - most).toLocaleString()} more</p>}
        </div>
      )}
    </section>
  )
}
