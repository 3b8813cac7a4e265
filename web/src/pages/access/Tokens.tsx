import { useQuery } from '@connectrpc/connect-query'
import { useRef, useState } from 'react'
import { useSearchParams } from 'react-router'
import { type APIToken, TokenService } from '../../gen/fairlead/console/v1/service_account_service_pb'
import { failureOf } from '../../hub/errors'
import { Age } from '../../live/Age'
import { At } from '../../live/At'
import { Ask, useLever } from '../../ui/Ask'
import { Copied } from '../../ui/Copied'
import { Export } from '../../ui/Export'
import { Empty, Pager, usePages } from '../../ui/Pager'
import { Failed, Waiting } from '../../ui/Panel'
import { isoOf, plain } from '../../ui/text'
import { commandOf, limitsSay } from './limits'

const size = 100

// API tokens of a person or a service account; administrators see all. Whose they are stands in the address.
export function Tokens() {
  const [params, setParams] = useSearchParams()
  const subject = params.get('subject') ?? ''
  const pages = usePages(`tokens ${subject}`)
  const list = useQuery(TokenService.method.listTokens, {
    subject,
    pageSize: size,
    pageToken: pages.token,
  })
  const again = () => void list.refetch()
  const tokens = list.data?.tokens ?? []
  return (
    <>
      <div className="actions">
        <form
          key={subject}
          className="actions"
          onSubmit={(e) => {
            e.preventDefault()
            const typed = String(new FormData(e.currentTarget).get('subject') ?? '').trim()
            setParams({ tab: 'tokens', ...(typed ? { subject: typed } : {}) })
          }}
        >
          <input
            name="subject"
            data-search
            defaultValue={subject}
            placeholder="user:ada, serviceaccount:ci"
            aria-label="Whose tokens"
            spellCheck={false}
            maxLength={300}
          />
          <button type="submit">Filter</button>
        </form>
        <NewToken key={`new ${subject}`} account={/^serviceaccount:(.*)$/.exec(subject)?.[1] ?? ''} />
        <Export
          name="tokens"
          columns={['id', 'description', 'of', 'limits', 'made', 'by', 'last_used', 'ends']}
          rows={tokens.map((t) => ({
            id: t.id,
            description: t.description,
            of: t.subject,
            limits: limitsSay(t.limits),
            made: isoOf(t.createTime),
            by: t.creator,
            last_used: isoOf(t.lastUseTime),
            ends: isoOf(t.expireTime),
          }))}
        />
      </div>
      {list.error && <Failed failure={failureOf(list.error)} again={again} />}
      {list.isPending && <Waiting what="tokens" />}
      {list.data && tokens.length === 0 && (
        <Empty pages={pages}>
          <p>{subject ? `${plain(subject, 300)} has no API token.` : 'You have no API tokens.'}</p>
        </Empty>
      )}
      {tokens.length > 0 && (
        <div className={list.error ? 'table-wrap stale' : 'table-wrap'}>
          <table>
            <thead>
              <tr>
                {['Token', 'Of', 'May', 'Made', 'Last used', 'Ends', 'Actions'].map((t) => (
                  <th scope="col" key={t}>
                    {t}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {tokens.map((t) => (
                <Row key={t.id} of={t} changed={again} />
              ))}
            </tbody>
          </table>
        </div>
      )}
      <Pager pages={pages} next={list.data?.nextPageToken ?? ''} size={size} total={undefined} />
    </>
  )
}

function Row({ of, changed }: { of: APIToken; changed: () => void }) {
  const revoke = useLever(TokenService.method.revokeToken, changed)
  const called = of.description || of.id
  return (
    <tr>
      <td className="name">
        {plain(called, 300)}
        {of.description && <div className="cause mono">{plain(of.id, 64)}</div>}
      </td>
      <td>{plain(of.subject, 300)}</td>
      <td>{plain(limitsSay(of.limits), 600)}</td>
      <td>
        <Age of={of.createTime} /> {of.creator !== of.subject && `by ${plain(of.creator, 300)}`}
      </td>
      <td>
        <Age of={of.lastUseTime} />
      </td>
      <td>{of.expireTime ? <At of={of.expireTime} /> : 'never'}</td>
      <td>
        <Ask
          verb="Revoke"
          title={plain(`Revoke the token ${called}`, 320)}
          words="It counts for nothing within 30 seconds, everywhere, with the shells and streams that run by it. It can not be brought back."
          lever={revoke}
          request={() => ({ id: of.id })}
        />
      </td>
    </tr>
  )
}

const lengths: [string, number][] = [
  ['a day', 1],
  ['a week', 7],
  ['30 days', 30],
  ['90 days', 90],
  ['a year', 365],
]

// The hub makes no API token for a session in a browser, which would outlive it: a stolen session must not become a token of a year. What a person
// describes here becomes the command that makes it.
function NewToken({ account }: { account: string }) {
  const dialog = useRef<HTMLDialogElement>(null)
  const [typed, setTyped] = useState<Record<string, string>>({ account, days: '30' })
  const set = (e: React.ChangeEvent<HTMLInputElement | HTMLSelectElement>) => {
    const { name, value } = e.currentTarget
    setTyped((before) => ({ ...before, [name]: value }))
  }
  const command = commandOf(typed)
  return (
    <>
      <button type="button" onClick={() => dialog.current?.showModal()}>
        New token
      </button>
      <dialog ref={dialog} aria-label="New token">
        <h2>New token</h2>
        <p>
          It may do what its owner may, within the limits given here. A session in a browser makes no API
          tokens: the command does, after <code>fairlead login {window.location.origin}</code>, and shows the
          token once.
        </p>
        <form onSubmit={(e) => e.preventDefault()}>
          <label>
            For
            <input name="description" onChange={set} maxLength={1024} placeholder="what it is for" />
          </label>
          <label>
            Service account
            <input
              name="account"
              defaultValue={account}
              onChange={set}
              maxLength={63}
              placeholder="none: it is yours"
              spellCheck={false}
            />
          </label>
          <label>
            Ends
            <select name="days" value={typed.days} onChange={set}>
              {lengths.map(([text, days]) => (
                <option key={days} value={days}>
                  in {text}
                </option>
              ))}
            </select>
          </label>
          <label>
            At most the role
            <input
              name="role"
              list="token-roles"
              onChange={set}
              maxLength={63}
              placeholder="no bound"
              spellCheck={false}
            />
            <datalist id="token-roles">
              {['viewer', 'deployer', 'operator', 'admin'].map((r) => (
                <option key={r} value={r} />
              ))}
            </datalist>
          </label>
          <label>
            Only in projects
            <input name="projects" onChange={set} placeholder="all" spellCheck={false} />
          </label>
          <label>
            Only on clusters
            <input name="clusters" onChange={set} placeholder="all" spellCheck={false} />
          </label>
        </form>
        <pre>{plain(command, 4096)}</pre>
        <div className="actions">
          <Copied text={command} />
          <button type="button" onClick={() => dialog.current?.close()}>
            Close
          </button>
        </div>
      </dialog>
    </>
  )
}
