import { useQuery } from '@connectrpc/connect-query'
import { useMutation } from '@tanstack/react-query'
import { useState } from 'react'
import { LoginService } from '../gen/fairlead/console/v1/login_service_pb'
import { failureOf } from '../hub/errors'
import { useLoginLink } from '../hub/session'
import { Failed, Title } from '../ui/Panel'

// The way in: the identity provider where there is one, and a login link.
export function Login({ done }: { done: () => void }) {
  const options = useQuery(LoginService.method.getLoginOptions, {}, { refetchInterval: false })
  const [link, setLink] = useState('')
  const login = useMutation({ mutationFn: useLoginLink, onSuccess: done })
  const back = window.location.pathname + window.location.search
  return (
    <main className="login">
      <Title tab="Log in">Fairlead</Title>
      {options.data?.oidc && (
        <p>
          <a className="button" href={`/v1/login?return=${encodeURIComponent(back)}`}>
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
    </main>
  )
}
