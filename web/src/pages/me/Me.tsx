import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useRef } from 'react'
import { failureOf } from '../../hub/errors'
import { endSession, getSession } from '../../hub/session'
import { At } from '../../live/At'
import { Failed, Title, Waiting } from '../../ui/Panel'
import { plain } from '../../ui/text'
import { Logins } from './Logins'

// Who one is here. A login in a window of its own ends at this page.
export function Me() {
  const { data, error, refetch } = useQuery({ queryKey: ['session'], queryFn: getSession })
  return (
    <>
      <Title tab="You">{plain(data?.user ?? 'You')}</Title>
      {error && !data && <Failed failure={failureOf(error)} again={() => void refetch()} />}
      {!data && !error && <Waiting what="your session" />}
      {data && (
        <section className="panel">
          <dl>
            <dt>Groups</dt>
            <dd>{plain(data.groups.join(', '), 2000) || 'none'}</dd>
            <dt>Session</dt>
            <dd>
              until <At of={new Date(data.expireTime)} />; it is renewed while a page is open, until{' '}
              <At of={new Date(data.endTime)} />
            </dd>
          </dl>
          <Everywhere />
          <p className="quiet">If another window asked for this login, close this one and go on there.</p>
        </section>
      )}
      {data && <Logins />}
    </>
  )
}

function Everywhere() {
  const queries = useQueryClient()
  const dialog = useRef<HTMLDialogElement>(null)
  const end = useMutation({
    mutationFn: () => endSession(true),
    onSuccess: () => {
      queries.clear()
      window.location.assign('/')
    },
  })
  return (
    <>
      <p>
        <button type="button" onClick={() => dialog.current?.showModal()}>
          Sign out everywhere
        </button>
      </p>
      <dialog ref={dialog} aria-label="Sign out everywhere">
        <h2>Sign out everywhere</h2>
        <p>
          All your logins end within 30 seconds: in this browser, in others, and of the command, with the
          shells and streams that run by them. Your API tokens stay.
        </p>
        {end.error && <Failed failure={failureOf(end.error)} />}
        <div className="actions">
          <button type="button" disabled={end.isPending} onClick={() => end.mutate()}>
            Sign out everywhere
          </button>
          <button type="button" onClick={() => dialog.current?.close()}>
            Cancel
          </button>
        </div>
      </dialog>
    </>
  )
}
