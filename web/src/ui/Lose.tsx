import type { DescMessage, MessageInitShape } from '@bufbuild/protobuf'
import { useMutation } from '@tanstack/react-query'
import { useEffect, useLayoutEffect, useRef, useState } from 'react'
import { failureOf } from '../hub/errors'
import { handOnFocus, type Pulled } from './Ask'
import { Consequences } from './Consequences'
import type { Loss } from './deletion'
import { Failed } from './Panel'
import { plain } from './text'

const none: Loss = { says: [], grave: false }

export type Sent = {
  send: (keep: Loss['keep']) => void
  error: unknown
  isPending: boolean
  done?: boolean
  reset: () => void
}

// What a lever of the hub does, as a dialog sends it.
export const sentBy = <I extends DescMessage>(
  lever: Pulled<I>,
  request: () => MessageInitShape<I>,
): Sent => ({
  send: () => lever.pull(request()),
  error: lever.error,
  isPending: lever.pending,
  done: lever.done,
  reset: lever.reset,
})

// A button whose deed takes something away, after a look at what goes with it. A grave loss wants the name typed.
export function Lose({
  verb,
  title,
  name,
  loss,
  says,
  note,
  sure,
  sent,
}: {
  verb: string
  title: string
  name: string
  loss?: (() => Promise<Loss>) | undefined
  // What the hub itself wants confirmed, in place of what the page found.
  says?: string[] | undefined
  note: string
  sure: string
  sent: Sent
}) {
  const dialog = useRef<HTMLDialogElement>(null)
  const opener = useRef<HTMLButtonElement>(null)
  const [typed, setTyped] = useState('')
  const [kept, setKept] = useState(false)
  const asked = useMutation({ mutationFn: async () => (await loss?.()) ?? none })
  const { done } = sent
  useEffect(() => {
    if (done) dialog.current?.close()
  }, [done])
  // biome-ignore lint/correctness/useExhaustiveDependencies: what the hub took in before this button came says nothing of what it would do now
  useEffect(() => sent.reset(), [])
  useLayoutEffect(() => () => handOnFocus(opener.current, dialog.current), [])
  const keep = kept ? asked.data?.keep : undefined
  const grave = (asked.data?.grave ?? false) && !keep
  const words = says ?? (keep ? [keep.says] : (asked.data?.says ?? []))
  return (
    <>
      <button
        ref={opener}
        type="button"
        className="apart"
        onClick={() => {
          sent.reset()
          setTyped('')
          setKept(false)
          asked.mutate()
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
      <dialog ref={dialog} aria-label={plain(title, 320)}>
        <h2>{plain(title, 320)}</h2>
        {asked.isPending && <p role="status">Asking what goes with it…</p>}
        {asked.error ? <Failed failure={failureOf(asked.error)} again={() => asked.mutate()} /> : null}
        <Consequences of={words} />
        <p className="quiet">{note}</p>
        <form
          onSubmit={(e) => {
            e.preventDefault()
            sent.send(keep)
          }}
        >
          {asked.data?.keep && (
            <label className="choice">
              <input
                type="checkbox"
                checked={kept}
                disabled={sent.isPending}
                onChange={(e) => setKept(e.target.checked)}
              />{' '}
              {asked.data.keep.choice}
            </label>
          )}
          {grave && (
            <label>
              <span>
                Type <strong>{plain(name, 260)}</strong> to go on
              </span>
              <input
                value={typed}
                onChange={(e) => setTyped(e.target.value)}
                autoComplete="off"
                spellCheck={false}
              />
            </label>
          )}
          {keep && sent.isPending && <p role="status">{keep.waits}</p>}
          {sent.error ? <Failed failure={failureOf(sent.error)} /> : null}
          <div className="actions">
            <button type="submit" disabled={sent.isPending || !asked.isSuccess || (grave && typed !== name)}>
              {sure}
            </button>
            <button type="button" onClick={() => dialog.current?.close()}>
              Cancel
            </button>
          </div>
        </form>
        <Closes
          dialog={dialog}
          when={() => {
            if (!done) sent.reset()
            asked.reset() // so that the focus is on Cancel again when it is opened
          }}
        />
      </dialog>
    </>
  )
}

// A dialog that is closed, by Escape too, ends what it waits for.
function Closes({ dialog, when }: { dialog: React.RefObject<HTMLDialogElement | null>; when: () => void }) {
  const then = useRef(when)
  then.current = when
  useEffect(() => {
    const of = dialog.current
    const closed = () => then.current()
    of?.addEventListener('close', closed)
    return () => of?.removeEventListener('close', closed)
  }, [dialog])
  return null
}
