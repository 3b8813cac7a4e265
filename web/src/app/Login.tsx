import { useQuery } from '@connectrpc/connect-query'
import { useMutation } from '@tanstack/react-query'
import { useEffect, useRef, useState } from 'react'
import { LoginService } from '../gen/fairlead/console/v1/login_service_pb'
import { failureOf } from '../hub/errors'
import { useLoginLink } from '../hub/session'
import { Failed, Title } from '../ui/Panel'
import { plain } from '../ui/text'

export function Login({ done }: { done: () => void }) {
  return (
    <main className="login">
      <Title tab="Log in">Fairlead</Title>
      <Ways done={done} apart={false} />
    </main>
  )
}

// The session is over while a page is open. The page stays behind, with all that was typed.
export function LoginAgain({ user, done }: { user: string; done: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null)
  useEffect(() => dialog.current?.showModal(), [])
  return (
    // A browser lets a second Escape close what refuses the first one.
    <dialog
      ref={dialog}
      aria-label="Log in again"
      onCancel={(e) => e.preventDefault()}
      onClose={() => dialog.current?.showModal()}
    >
      <h2>Your session is over</h2>
      <p>
        Log in again as {plain(user)}: this page stays as it is, with what you typed. It shows what was before
        until then.
      </p>
      <Ways done={done} apart />
    </dialog>
  )
}

// The ways in: the identity provider where there is one, and a login link. apart: in a window of its own, so that this one stays.
function Ways({ done, apart }: { done: () => void; apart: boolean }) {
  const options = useQuery(LoginService.method.getLoginOptions, {}, { refetchInterval: false })
  const [link, setLink] = useState('')
  const login = useMutation({ mutationFn: useLoginLink, onSuccess: done })
  const back = apart ? '/me' : window.location.pathname + window.location.search
  return (
    <>
      {options.data?.oidc && (
        <p>
          <a
            className="button"
            href={`/v1/login?return=${encodeURIComponent(back)}`}
            {...(apart ? { target: '_blank', rel: 'noreferrer' } : {})}
          >
            Log in at {new URL(options.data.oidc.issuer).host}
          </a>
        </p>
      )}
      {options.error && <Failed failure={failureOf(options.error)} again={() => void options.refetch()} />}
      <form
        onSubmit={(e) => {
          e.preventDefault()
          login.mutate(link)
        }}
      >
        <label>
          Login link
          <input
            value={link}
            onChange={(e) => setLink(e.target.value)}
            autoComplete="off"
            spellCheck={false}
            required
            placeholder="https://…/v1/login/once#fairlead-login-…"
          />
        </label>
        <button type="submit" disabled={login.isPending}>
          Log in
        </button>
      </form>
      {login.error && <Failed failure={failureOf(login.error)} />}
      <p className="quiet">
        A link works once. The console prints one when it starts and nobody has logged in yet; later,
        administrators make them with <code>fairlead admin login-link NAME</code>.
      </p>
    </>
  )
}
