import { useQuery } from '@connectrpc/connect-query'
import { Link, useSearchParams } from 'react-router'
import type { Role } from '../../gen/fairlead/console/v1/access_service_pb'
import { AccessService } from '../../gen/fairlead/console/v1/access_service_pb'
import type { Project } from '../../gen/fairlead/console/v1/project_service_pb'
import type { Grant } from '../../gen/fairlead/console/v1/resources_pb'
import type { ServiceAccount } from '../../gen/fairlead/console/v1/service_account_service_pb'
import { failureOf } from '../../hub/errors'
import { State } from '../../state/State'
import { Failed, Title, Waiting } from '../../ui/Panel'
import { Resources } from '../../ui/Resources'
import { kindAt, kinds, type ResourceKind } from '../../ui/resources'
import { Said } from '../../ui/Said'
import { Tabs, useTab } from '../../ui/Tabs'
import { amount, pairsOf, plain } from '../../ui/text'
import { Recordings } from './Recordings'
import { Requests } from './Requests'
import { Tokens } from './Tokens'

const tabs = ['check', 'grants', 'roles', 'projects', 'accounts', 'tokens', 'requests', 'recordings']
const at = (path: string) => kindAt(path) as ResourceKind

export function Access() {
  const tab = useTab(tabs)
  return (
    <>
      <Title tab="Access">Access</Title>
      <Tabs names={tabs} />
      {tab === 'check' && <Check />}
      {tab === 'grants' && <Resources<Grant> of={at('grant')} say={grantSays} />}
      {tab === 'roles' && <Resources<Role> of={at('role')} say={roleSays} />}
      {tab === 'projects' && (
        <Resources<Project>
          of={at('project')}
          say={(p) => (
            <>
              {plain(p.spec?.description ?? '', 300)}{' '}
              <Link to={`/services?q=${encodeURIComponent(`project = ${p.metadata?.name}`)}`}>
                {amount(p.status?.services ?? 0, 'service')}
              </Link>
            </>
          )}
        />
      )}
      {tab === 'accounts' && <Resources<ServiceAccount> of={at('serviceaccount')} say={() => ''} />}
      {tab === 'tokens' && <Tokens />}
      {tab === 'requests' && <Requests />}
      {tab === 'recordings' && <Recordings />}
    </>
  )
}

export function grantSays(g: Grant): string {
  const who = (g.spec?.subjects ?? []).map(({ subject: s }) =>
    s.case === 'serviceAccount' ? `service account ${s.value}` : `${s.case} ${s.value}`,
  )
  const { names = [], labels = {}, all } = g.spec?.clusters ?? {}
  const where = all
    ? 'all clusters'
    : names.length
      ? names.join(', ')
      : `clusters with ${pairsOf(labels, ', ')}`
  const only = g.spec?.projects.length ? `, only in projects ${g.spec.projects.join(', ')}` : ''
  return plain(`${who.join(', ')}: ${g.spec?.role} on ${where}${only}`, 600)
}

function roleSays(r: Role): string {
  const rules = (r.spec?.rules ?? []).map((x) => `${x.verbs.join(', ')} ${x.kinds.join(', ')}`)
  return plain(rules.join(' · ') || 'no rules', 600)
}

const verbs = ['view', 'deploy', 'edit', 'delete', 'read', 'write', 'exec', 'secrets']
const fields = ['subject', 'verb', 'kind', 'name', 'cluster'] as const

// May X do Y on Z, and why. The question is the address, so that it can be sent to somebody.
function Check() {
  const [params, setParams] = useSearchParams()
  const asked = Object.fromEntries(fields.map((f) => [f, params.get(f) ?? ''])) as Record<
    (typeof fields)[number],
    string
  >
  const groups = (params.get('groups') ?? '').split(/[\s,]+/).filter(Boolean)
  const answer = useQuery(
    AccessService.method.checkAccess,
    { ...asked, groups },
    { enabled: asked.verb !== '', refetchInterval: false },
  )
  const caller = useQuery(AccessService.method.getCaller, {}, { refetchInterval: 60_000 })
  // A question without a kind is about the API of Kubernetes; without a question the form begins with a service.
  const kind = asked.verb === '' ? asked.kind || 'Service' : asked.kind
  return (
    <div className="columns">
      <section className="panel">
        <h2>May somebody do something?</h2>
        <form
          className="fields"
          key={String(params)}
          onSubmit={(e) => {
            e.preventDefault()
            const typed = new FormData(e.currentTarget)
            const next = new URLSearchParams({ tab: 'check' })
            for (const f of [...fields, 'groups']) {
              const value = String(typed.get(f) ?? '').trim()
              if (value) next.set(f, value)
            }
            setParams(next)
          }}
        >
          <label>
            Who{' '}
            <input
              name="subject"
              defaultValue={asked.subject}
              placeholder="me; or user:ada, serviceaccount:ci"
            />
          </label>
          <label>
            In groups <input name="groups" defaultValue={groups.join(' ')} placeholder="shop-team" />
          </label>
          <label>
            Does
            <select name="verb" defaultValue={asked.verb || 'view'}>
              {verbs.map((v) => (
                <option key={v}>{v}</option>
              ))}
            </select>
          </label>
          <label>
            On a
            <select name="kind" defaultValue={kind}>
              {kinds.map((k) => (
                <option key={k.name}>{k.name}</option>
              ))}
              <option value="">Kubernetes API</option>
            </select>
          </label>
          <label>
            Named <input name="name" defaultValue={asked.name} placeholder="web" />
          </label>
          <label>
            In cluster <input name="cluster" defaultValue={asked.cluster} placeholder="edge-1" />
          </label>
          <button type="submit">Ask</button>
        </form>
        {answer.error && <Failed failure={failureOf(answer.error)} />}
        {answer.data && (
          <p role="status">
            <State
              of={answer.data.allowed ? 'healthy' : 'failed'}
              word={answer.data.allowed ? 'allowed' : 'refused'}
            />{' '}
            <Said of={answer.data.reason} max={1000} />
          </p>
        )}
      </section>
      <section className="panel" aria-label="You">
        <h2>You</h2>
        {caller.error && <Failed failure={failureOf(caller.error)} />}
        {!caller.data && !caller.error && <Waiting what="your rights" />}
        {caller.data && (
          <>
            <p>
              {plain(caller.data.subject)}
              {caller.data.groups.length > 0 && ` in ${plain(caller.data.groups.join(', '), 600)}`}
              {caller.data.administrator && ': administrator, who may do everything'}
            </p>
            <ul className="lines">
              {caller.data.grants.map((g) => (
                <li key={g.metadata?.name}>
                  <Link to={`/grant/${g.metadata?.name}`}>{g.metadata?.name}</Link> {grantSays(g)}
                </li>
              ))}
            </ul>
            {!caller.data.administrator && caller.data.grants.length === 0 && (
              <p>No grant is for you: an administrator has to write one.</p>
            )}
          </>
        )}
      </section>
    </div>
  )
}
