import type { DescMessage, DescMethodUnary, MessageInitShape, MessageShape } from '@bufbuild/protobuf'
import { type Timestamp, timestampFromMs } from '@bufbuild/protobuf/wkt'
import { useMutation } from '@connectrpc/connect-query'
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from 'react'
import { useLocation } from 'react-router'
import { hubNow } from '../hub/clock'
import { failureOf } from '../hub/errors'
import { useOnce } from './once'
import { Failed } from './Panel'
import { plain } from './text'
import { tray } from './tray'

export type Pulled<I extends DescMessage, O extends DescMessage = DescMessage> = {
  // done is called with the hub's answer when it has taken it in, refused with why it has not: also when what asked for it is gone from the page.
  pull: (
    request: MessageInitShape<I>,
    done?: (answer: MessageShape<O>) => void,
    refused?: (failure: unknown) => void,
  ) => void
  pending: boolean
  error: unknown
  done: boolean
  reset: () => void
}

export function useLever<I extends DescMessage, O extends DescMessage>(
  method: DescMethodUnary<I, O>,
  changed: () => void,
): Pulled<I, O> {
  const done = useRef<(answer: MessageShape<O>) => void>(undefined)
  const refused = useRef<(failure: unknown) => void>(undefined)
  const once = useOnce()
  const m = useMutation(method, {
    onSuccess: (answer) => {
      done.current?.(answer)
      changed()
    },
    onError: (failure) => refused.current?.(failure),
    onSettled: once.settled,
  })
  const { reset } = m
  return {
    pull: (request, ifDone, ifRefused) =>
      once.send(() => {
        done.current = ifDone
        refused.current = ifRefused
        m.mutate(request)
      }),
    pending: m.isPending,
    error: m.error,
    done: m.isSuccess,
    // What is on its way has its outcome on the page.
    reset: useCallback(() => {
      if (!once.sent) reset()
    }, [once, reset]),
  }
}

// A button that says what will happen before it does, and afterwards what the hub answered.
export function Ask<I extends DescMessage, O extends DescMessage>({
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
  lever: Pulled<I, O>
  request: (reason: string, choice: string, until: { untilTime?: Timestamp }) => MessageInitShape<I>
  // How it is undone, from what is shown now and what the hub answers.
  undo?: ((answer: MessageShape<O>) => Promise<unknown>) | undefined
  // Whether the person may say when it ends by itself, or has to.
  ends?: boolean | 'always'
  // Ways to do it: words and what they mean to request, the first one unless the person chooses another.
  choices?: [string, string][]
  // What it would do now.
  children?: React.ReactNode
}) {
  const dialog = useRef<HTMLDialogElement>(null)
  const opener = useRef<HTMLButtonElement>(null)
  // What a person typed and chose stays with them until the hub has taken it in. What they chose may be gone from the page by then: the hub says so.
  const [reason, setReason] = useState('')
  const [choice, setChoice] = useState<string>()
  const [hours, setHours] = useState('')
  const least = ends === 'always' ? '2' : '0'
  const { done, reset } = lever
  useEffect(() => {
    if (!done) return
    dialog.current?.close()
    setReason('')
    setChoice(undefined)
    setHours('')
  }, [done])
  useLayoutEffect(() => () => handOnFocus(opener.current, dialog.current), [])
  // What the hub took in before this button came back says nothing of what it would do now.
  useEffect(() => reset(), [reset])
  // A link in it leads to what it would do, which must not lie behind it.
  const { key } = useLocation()
  // biome-ignore lint/correctness/useExhaustiveDependencies: another place is the reason
  useEffect(() => dialog.current?.close(), [key])
  return (
    <>
      <button
        ref={opener}
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
      <dialog ref={dialog} aria-label={plain(title, 400)}>
        <h2>{plain(title, 400)}</h2>
        <p>{plain(words)}</p>
        {children && <div className="quiet asked">{children}</div>}
        <form
          onSubmit={(e) => {
            e.preventDefault()
            const until = ends ? Number(hours || least) : 0
            lever.pull(
              request(
                reason,
                choice ?? choices?.[0]?.[1] ?? '',
                until > 0 ? { untilTime: timestampFromMs(hubNow() + until * 3_600_000) } : {},
              ),
              undo && ((answer) => tray.add(title, () => undo(answer))),
              (failure) => {
                if (!dialog.current?.open) tray.refuse(title, failure)
              },
            )
          }}
        >
          {choices?.map(([text, value], i) => (
            <label key={value} className="choice">
              <input
                type="radio"
                name="choice"
                value={value}
                checked={choice === undefined ? i === 0 : choice === value}
                onChange={() => setChoice(value)}
              />{' '}
              {plain(text, 400)}
            </label>
          ))}
          {ends && (
            <label>
              Ends
              <select name="hours" value={hours || least} onChange={(e) => setHours(e.target.value)}>
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

// A button that goes while it has the focus, or its dialog has, leaves it to the heading of the page, and not to nothing.
export function handOnFocus(opener: HTMLElement | null, dialog: HTMLDialogElement | null) {
  const at = document.activeElement
  if (!at || (at !== opener && !dialog?.contains(at))) return
  dialog?.close() // the page behind an open dialog takes no focus
  document.querySelector('h1')?.focus({ preventScroll: true })
}
