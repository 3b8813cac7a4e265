import { ConnectError, createClient } from '@connectrpc/connect'
import { useMutation } from '@connectrpc/connect-query'
import { useMutation as useAsked } from '@tanstack/react-query'
import { useRef, useState } from 'react'
import { useNavigate } from 'react-router'
import { ConfirmationWantedSchema } from '../gen/fairlead/console/v1/apply_service_pb'
import { RevisionService } from '../gen/fairlead/console/v1/revision_service_pb'
import { failureOf } from '../hub/errors'
import { transport } from '../hub/transport'
import type { Loss } from './deletion'
import { Failed } from './Panel'
import type { ResourceKind } from './resources'
import { plain } from './text'
import { tray } from './tray'

const none: Loss = { says: [], grave: false }

// Deletes a resource after a look at what goes with it. What others still name the hub refuses, and says by whom. Where the hub itself wants a
// confirmation, its consequences are shown and asked for.
export function Delete({
  of,
  name,
  to,
  loss,
}: {
  of: ResourceKind
  name: string
  // The list that a person is led to afterwards.
  to: string
  loss?: () => Promise<Loss>
}) {
  const dialog = useRef<HTMLDialogElement>(null)
  const navigate = useNavigate()
  const [typed, setTyped] = useState('')
  const asked = useAsked({ mutationFn: async () => (await loss?.()) ?? none })
  const sent = useMutation(of.remove, {
    onSuccess: () => {
      dialog.current?.close()
      // The values of a Secret go with it: it can't be made again.
      if (of.name !== 'Secret')
        tray.add(`Delete ${of.path} ${name}`, () =>
          createClient(RevisionService, transport).undeleteResource({ kind: of.kind, name }),
        )
      navigate(to)
    },
  })
  const [wanted] = sent.error ? ConnectError.from(sent.error).findDetails(ConfirmationWantedSchema) : []
  const grave = asked.data?.grave ?? false
  const says = wanted?.consequences.length ? wanted.consequences : (asked.data?.says ?? [])
  const title = `Delete ${of.name} ${name}`
  return (
    <>
      <button
        type="button"
        className="apart"
        onClick={() => {
          sent.reset()
          setTyped('')
          asked.mutate()
          dialog.current?.showModal()
        }}
      >
        Delete
      </button>
      <dialog ref={dialog} aria-label={plain(title, 320)}>
        <h2>{plain(title, 320)}</h2>
        {asked.isPending && <p role="status">Asking what goes with it…</p>}
        {asked.error ? <Failed failure={failureOf(asked.error)} again={() => asked.mutate()} /> : null}
        <ul>
          {says.slice(0, 100).map((s) => (
            <li key={s}>{plain(s, 400)}</li>
          ))}
        </ul>
        <p className="quiet">
          {of.name === 'Secret'
            ? 'Its values go with it and can not be brought back.'
            : 'For an hour it can be brought back: below, or by fairlead undo.'}
        </p>
        <form
          onSubmit={(e) => {
            e.preventDefault()
            sent.mutate({ name, ...(wanted ? { confirmation: wanted.confirmation } : {}) } as never)
          }}
        >
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
          {sent.error ? <Failed failure={failureOf(sent.error)} /> : null}
          <div className="actions">
            <button type="submit" disabled={sent.isPending || !asked.isSuccess || (grave && typed !== name)}>
              {wanted ? 'Delete it all the same' : 'Delete'}
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
