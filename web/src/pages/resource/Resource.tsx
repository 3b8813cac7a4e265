import type { Message } from '@bufbuild/protobuf'
import { Link, useParams } from 'react-router'
import type { Alert } from '../../gen/fairlead/console/v1/alert_service_pb'
import type { Backend } from '../../gen/fairlead/console/v1/backend_service_pb'
import type { Project } from '../../gen/fairlead/console/v1/project_service_pb'
import type { Metadata } from '../../gen/fairlead/console/v1/resources_pb'
import { failureOf, isMissing } from '../../hub/errors'
import { Age } from '../../live/Age'
import { useFreshness } from '../../live/asked'
import { useLive } from '../../live/live'
import Changes from '../../ui/Changes'
import { Copied } from '../../ui/Copied'
import { Delete } from '../../ui/Delete'
import Deleted from '../../ui/Deleted'
import { Failed, Stale, Title, Waiting } from '../../ui/Panel'
import { held, kindAt, manifest, type ResourceKind } from '../../ui/resources'
import { plain } from '../../ui/text'
import { Frozen, Windows } from '../../ui/Windows'
import { Missing } from '../missing/Missing'
import { AlertNow } from './AlertNow'
import { BackendNow } from './BackendNow'
import { entriesOf, hasUsers } from './entries'
import { Users } from './Users'

// Where the kinds are listed.
const lists: Record<string, string> = {
  project: '/access?tab=projects',
  role: '/access?tab=roles',
  grant: '/access?tab=grants',
  serviceaccount: '/access?tab=accounts',
  configset: '/config',
  secret: '/config?tab=secrets',
  backend: '/config?tab=backends',
  sink: '/hub',
  agentconfig: '/hub',
  viewset: '/hub',
  alert: '/hub',
}

// The page of a kind that has none of its own: what is written down, and the way to change it.
export function Resource({ kind }: { kind: string }) {
  const { name = '' } = useParams()
  const of = kindAt(kind)
  return of ? <Shown key={name} of={of} name={name} /> : <Missing />
}

function Shown({ of, name }: { of: ResourceKind; name: string }) {
  const got = useLive(of.get, { name } as never)
  const fresh = useFreshness([got])
  const again = () => void got.refetch()
  const missing = isMissing(got.error)
  const resource = missing
    ? undefined
    : (held(of.get, got.data) as (Message & { metadata?: Metadata | undefined }) | undefined)
  const text = resource ? manifest(of, resource) : ''
  const usersOf = resource && hasUsers(of.path, resource) ? entriesOf(of.path, resource) : undefined
  return (
    <>
      <div className="head">
        <Title tab={name}>
          {of.name} {plain(name, 80)}
        </Title>
        {resource?.metadata?.updateTime && (
          <span className="quiet">
            revision {String(resource.metadata.revision)}, changed <Age of={resource.metadata.updateTime} />{' '}
            ago
          </span>
        )}
        {resource && (
          <span className="end" data-actions>
            <Copied text={text} />
            <Link className="button" to={`/apply?kind=${of.name}&name=${encodeURIComponent(name)}`}>
              Edit
            </Link>
            <Delete of={of} name={name} to={lists[of.path] ?? '/'} />
          </span>
        )}
      </div>
      {got.error && !resource ? <Failed failure={failureOf(got.error)} again={again} /> : null}
      {missing && <Deleted of={of} name={name} back={again} />}
      {got.isPending && <Waiting what={`the ${of.name}`} />}
      {resource && (
        <>
          <Stale of={fresh} again={again} />
          {of.path === 'alert' && <AlertNow of={resource as Alert} name={name} changed={again} />}
          {of.path === 'backend' && <BackendNow of={resource as Backend} changed={again} />}
          {of.path === 'serviceaccount' && (
            <p>
              <Link
                to={`/access?${new URLSearchParams({ tab: 'tokens', subject: `serviceaccount:${name}` })}`}
              >
                Its API tokens
              </Link>
            </p>
          )}
          {of.path === 'project' && <Closes of={resource as Project} name={name} changed={again} />}
          <div className={fresh.stale || fresh.failure ? 'panel stale' : 'panel'}>
            <pre>{plain(text, 1 << 20)}</pre>
          </div>
          <Changes of={of} name={name} />
          {usersOf && <Users of={of} name={name} entries={usersOf} />}
          <p className="quiet">
            <code>
              fairlead get {of.path} {name} -o yaml
            </code>
          </p>
        </>
      )}
    </>
  )
}

// When new content of a project's services may be applied.
function Closes({ of, name, changed }: { of: Project; name: string; changed: () => void }) {
  return (
    <section className="panel">
      <div className="head">
        <h2>Windows and freezes</h2>
        {!of.freeze && (
          <span className="end">
            <Frozen kind="project" name={name} of={undefined} changed={changed} />
          </span>
        )}
      </div>
      {of.freeze && <Frozen kind="project" name={name} of={of.freeze} changed={changed} />}
      <Windows of={of.spec?.windows ?? []} name={name} />
      <p>
        <Link to={`/services?q=${encodeURIComponent(`project = ${name}`)}`}>Its services</Link>
      </p>
    </section>
  )
}
