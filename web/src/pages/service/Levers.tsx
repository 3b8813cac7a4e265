import type { DescMessage, DescMethodUnary, MessageInitShape } from '@bufbuild/protobuf'
import { useMutation } from '@connectrpc/connect-query'
import { useEffect, useRef, useState } from 'react'
import type { Service } from '../../gen/fairlead/console/v1/resources_pb'
import { SyncService } from '../../gen/fairlead/console/v1/sync_service_pb'
import { SyncMode } from '../../gen/fairlead/delivery/v1/options_pb'
import { failureOf } from '../../hub/errors'
import { Failed } from '../../ui/Panel'
import { plain, shortCommit } from '../../ui/text'

const modes: Record<number, string> = {
  [SyncMode.DRY_RUN]: 'In dry run',
  [SyncMode.HOLD]: 'Held',
  [SyncMode.SUSPEND]: 'Suspended',
}

// Says which lever is pulled, and why.
export function Lever({ of }: { of: Service }) {
  const sync = of.spec?.sync
  const mode = modes[sync?.mode ?? 0]
  if (!mode && !sync?.pin) return null
  return (
    <div className="notice">
      {mode && (
        <>
          <strong>{mode}</strong>
          {sync?.reason && `: ${plain(sync.reason, 300)}`}.{' '}
        </>
      )}
      {sync?.pin && (
        <>
          <strong>Pinned</strong> to <span className="mono">{shortCommit(sync.pin)}</span>
          {of.spec?.unpinAfter ? ' until the ref moves on' : ''}
          {!mode && sync.reason && `: ${plain(sync.reason, 300)}`}.
        </>
      )}
    </div>
  )
}

export type Pulled<I extends DescMessage> = {
  pull: (request: MessageInitShape<I>) => void
  pending: boolean
  error: unknown
  done: boolean
  reset: () => void
}

export function useLever<I extends DescMessage, O extends DescMessage>(
  method: DescMethodUnary<I, O>,
  changed: () => void,
): Pulled<I> {
  const m = useMutation(method, { onSuccess: changed })
  return {
    pull: (request) => m.mutate(request),
    pending: m.isPending,
    error: m.error,
    done: m.isSuccess,
    reset: m.reset,
  }
}

export function Levers({ of, changed }: { of: Service; changed: () => void }) {
  const name = of.metadata?.name ?? ''
  const sync = useLever(SyncService.method.requestSync, changed)
  const hold = useLever(SyncService.method.holdService, changed)
  const resume = useLever(SyncService.method.resumeService, changed)
  const unpin = useLever(SyncService.method.pinService, changed)
  const held = (of.spec?.sync?.mode ?? 0) > SyncMode.AUTO
  return (
    <div className="end">
      <Ask
        key="Sync"
        verb="Sync"
        title={`Sync ${name}`}
        words="The agent renders everything anew and compares it with the cluster. It changes what differs."
        lever={sync}
        request={() => ({ name })}
      />
      {held ? (
        <Ask
          key="Resume"
          verb="Resume"
          title={`Resume ${name}`}
          words="What waits is applied, and changes of others in the cluster are undone."
          lever={resume}
          request={() => ({ name })}
        />
      ) : (
        <Ask
          key="Hold"
          verb="Hold"
          title={`Hold ${name}`}
          words="What is applied stays, and newer revisions wait until somebody resumes the service. The reason is shown to everybody."
          wants
          lever={hold}
          request={(reason) => ({ name, reason })}
        />
      )}
      {of.spec?.sync?.pin && (
        <Ask
          key="Unpin"
          verb="Unpin"
          title={`Unpin ${name}`}
          words="The service follows its ref again."
          lever={unpin}
          request={(reason) => ({ name, commit: '', reason })}
        />
      )}
    </div>
  )
}

// A button that says what will happen before it does, and afterwards what the hub answered.
export function Ask<I extends DescMessage>({
  verb,
  title,
  words,
  wants,
  lever,
  request,
}: {
  verb: string
  title: string
  words: string
  wants?: boolean
  lever: Pulled<I>
  request: (reason: string) => MessageInitShape<I>
}) {
  const dialog = useRef<HTMLDialogElement>(null)
  const [reason, setReason] = useState('')
  const { done } = lever
  useEffect(() => {
    if (done) dialog.current?.close()
  }, [done])
  return (
    <>
      <button
        type="button"
        onClick={() => {
          lever.reset()
          dialog.current?.showModal()
        }}
      >
        {verb}
      </button>
      {done && (
        <span className="quiet" role="status">
          The hub has taken it in.
        </span>
      )}
      <dialog ref={dialog} aria-label={title}>
        <h2>{title}</h2>
        <p>{words}</p>
        <form
          onSubmit={(e) => {
            e.preventDefault()
            lever.pull(request(reason))
          }}
        >
          {wants && (
            <label>
              Reason
              <input value={reason} onChange={(e) => setReason(e.target.value)} required maxLength={256} />
            </label>
          )}
          {lever.error ? <Failed failure={failureOf(lever.error)} /> : null}
          <div className="actions">
            <button type="submit" disabled={lever.pending}>
              {verb}
            </button>
            <button type="button" onClick={() => dialog.current?.close()}>
              Cancel
            </button>
          </div>
        </form>
      </dialog>
    </>
  )
}
