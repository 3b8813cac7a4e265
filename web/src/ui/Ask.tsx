import type { DescMessage, DescMethodUnary, MessageInitShape } from '@bufbuild/protobuf'
import { type Timestamp, timestampFromMs } from '@bufbuild/protobuf/wkt'
import { useMutation } from '@connectrpc/connect-query'
import { useEffect, useRef, useState } from 'react'
import { useLocation } from 'react-router'
import { failureOf } from '../hub/errors'
import { Failed } from './Panel'
import { tray } from './tray'

export type Pulled<I extends DescMessage> = {
  // done is called when the hub has taken it in, also when what asked for it is gone from the page.
  pull: (request: MessageInitShape<I>, done?: () => void) => void
  pending: boolean
  error: unknown
  done: boolean
  reset: () => void
}

export function useLever<I extends DescMessage, O extends DescMessage>(
  method: DescMethodUnary<I, O>,
  changed: () => void,
): Pulled<I> {
  const then = useRef<() => void>(undefined)
  const m = useMutation(method, {
    onSuccess: () => {
      then.current?.()
      changed()
    },
  })
  return {
    pull: (request, done) => {
      then.current = done
      m.mutate(request)
    },
    pending: m.isPending,
    error: m.error,
    done: m.isSuccess,
    reset: m.reset,
  }
}

// A button that says what will happen before it does, and afterwards what the hub answered.
export function Ask<I extends DescMessage>({
  verb,
  title,
  words,
  wants,
  lever,
  request,
  choices,
  ends,
  undo,
  children,
}: {
  verb: string
  title: string
  words: string
  wants?: boolean
  lever: Pulled<I>
  request: (reason: string, choice: string, until: { untilTime?: Timestamp }) => MessageInitShape<I>
  // How it is undone, from what is shown now.
  undo?: (() => Promise<unknown>) | undefined
  // Whether the person may say when it ends by itself, or has to.
  ends?: boolean | 'always'
  // Ways to do it: words and what they mean to request, the first one unless the person chooses another.
  choices?: [string, string][]
  // What it would do now.
  children?: React.ReactNode
}) {
  const dialog = useRef<HTMLDialogElement>(null)
  const [reason, setReason] = useState('')
  const { done, reset } = lever
  useEffect(() => {
    if (done) dialog.current?.close()
  }, [done])
  // What the hub took in before this button came back says nothing of what it would do now.
  useEffect(() => reset(), [reset])
  // A link in it leads to what it would do, which must not lie behind it.
  const { key } = useLocation()
  // biome-ignore lint/correctness/useExhaustiveDependencies: another place is the reason
  useEffect(() => dialog.current?.close(), [key])
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
      {done && !undo && (
        <span className="quiet" role="status">
          The hub has taken it in.
        </span>
      )}
      <dialog ref={dialog} aria-label={title}>
        <h2>{title}</h2>
        <p>{words}</p>
        {children && <div className="quiet asked">{children}</div>}
        <form
          onSubmit={(e) => {
            e.preventDefault()
            const typed = new FormData(e.currentTarget)
            const hours = Number(typed.get('hours') ?? 0)
            lever.pull(
              request(
                reason,
                String(typed.get('choice') ?? choices?.[0]?.[1] ?? ''),
                hours > 0 ? { untilTime: timestampFromMs(Date.now() + hours * 3_600_000) } : {},
              ),
              undo && (() => tray.add(title, undo)),
            )
          }}
        >
          {choices?.map(([text, value], i) => (
            <label key={value} className="choice">
              <input type="radio" name="choice" value={value} defaultChecked={i === 0} /> {text}
            </label>
          ))}
          {ends && (
            <label>
              Ends
              <select name="hours">
                {ends !== 'always' && <option value="0">when somebody ends it</option>}
                <option value="2">in two hours</option>
                <option value="24">in a day</option>
                <option value="168">in a week</option>
              </select>
            </label>
          )}
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
