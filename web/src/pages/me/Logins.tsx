import { useQuery } from '@connectrpc/connect-query'
import { type Login, LoginClient, LoginService } from '../../gen/fairlead/console/v1/login_service_pb'
import { failureOf } from '../../hub/errors'
import { Age } from '../../live/Age'
import { At } from '../../live/At'
import { Ask, useLever } from '../../ui/Ask'
import { Export } from '../../ui/Export'
import { Pager, usePages } from '../../ui/Pager'
import { Failed, Waiting } from '../../ui/Panel'
import { isoOf, plain } from '../../ui/text'
import { programOf } from './programs'

const size = 50

const clients: Record<number, string> = {
  [LoginClient.BROWSER]: 'browser',
  [LoginClient.COMMAND]: 'command',
  [LoginClient.TOKEN]: 'token of an administrator',
}

// How a login began, as the audit trail calls it.
const began: Record<string, string> = {
  'login.link': 'by a link',
  'login.oidc': 'at the identity provider',
  'login.hub-secret': 'with the hub secret',
  'session.begin': 'by a token',
  'token.create': 'made by an administrator',
}

// From where a person is logged in. Asking writes down when each login was used, so it is asked less often than other lists.
export function Logins() {
  const pages = usePages('logins')
  const list = useQuery(
    LoginService.method.listLogins,
    { pageSize: size, pageToken: pages.token },
    { refetchInterval: 30_000 },
  )
  const again = () => void list.refetch()
  return (
    <section aria-label="Logins" className="view">
      <div className="head">
        <h2>Logins</h2>
        <span className="end">
          <Export
            name="logins"
            columns={['id', 'by', 'program', 'began', 'began_at', 'how', 'last_used', 'last_used_at', 'ends']}
            rows={(list.data?.logins ?? []).map(rowOf)}
          />
          <EndOthers changed={again} />
        </span>
      </div>
      {list.error && <Failed failure={failureOf(list.error)} again={again} />}
      {!list.data && !list.error && <Waiting what="your logins" />}
      {list.data && (
        <>
          <div className={list.error ? 'table-wrap stale' : 'table-wrap'}>
            <table>
              <thead>
                <tr>
                  {['Program', 'By', 'Since', 'Last used', 'From', 'Ends unless used', 'Actions'].map((t) => (
                    <th scope="col" key={t}>
                      {t}
                    </th>
                  ))}
                </tr>
              </thead>
              <tbody>
                {list.data.logins.map((l) => (
                  <Row key={l.id} of={l} changed={again} />
                ))}
              </tbody>
            </table>
          </div>
          <Pager pages={pages} next={list.data.nextPageToken} size={size} total={undefined} />
          <p className="quiet">
            The program says itself what it is; the address is the one that the hub saw. Your API tokens are
            on the page Access.
          </p>
        </>
      )}
    </section>
  )
}

const rowOf = (of: Login) => ({
  id: of.id,
  by: clients[of.client] ?? '',
  program: of.program,
  began: isoOf(of.beginTime),
  began_at: of.beginAddress,
  how: began[of.action] ?? of.action,
  last_used: isoOf(of.lastUseTime),
  last_used_at: of.lastUseAddress,
  ends: isoOf(of.expireTime),
})

function Row({ of, changed }: { of: Login; changed: () => void }) {
  const program = plain(programOf(of.program), 80)
  const from = of.lastUseAddress || of.beginAddress
  return (
    <tr aria-current={of.own ? 'true' : undefined}>
      <td className="name">
        <span title={plain(of.program, 300)}>{program}</span>
        {of.own && <div className="cause">this one</div>}
      </td>
      <td>{clients[of.client] ?? 'not known'}</td>
      <td>
        <Age of={of.beginTime} /> {began[of.action] ?? ''}
      </td>
      <td>
        <Age of={of.lastUseTime} />
      </td>
      <td>
        {plain(from, 80) || 'not known'}
        {of.beginAddress && of.beginAddress !== from && (
          <div className="cause">began at {plain(of.beginAddress, 80)}</div>
        )}
      </td>
      <td>
        <At of={of.expireTime} />
      </td>
      <td>{!of.own && <End of={of} program={program} changed={changed} />}</td>
    </tr>
  )
}

function End({ of, program, changed }: { of: Login; program: string; changed: () => void }) {
  const end = useLever(LoginService.method.endLogin, changed)
  return (
    <Ask
      verb="End"
      title={`End the login of ${program}`}
      words="It ends within 30 seconds, with the shells and streams that run by it."
      lever={end}
      request={() => ({ id: of.id })}
    />
  )
}

function EndOthers({ changed }: { changed: () => void }) {
  const end = useLever(LoginService.method.endOtherLogins, changed)
  return (
    <Ask
      verb="End all others"
      title="End all other logins"
      words="All your logins but this one end within 30 seconds: in other browsers and of the command, with the shells and streams that run by them. Your API tokens stay."
      lever={end}
      request={() => ({})}
    />
  )
}
