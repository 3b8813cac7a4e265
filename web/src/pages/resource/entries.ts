import type { Message } from '@bufbuild/protobuf'
import type { ConfigSet, ConfigUser } from '../../gen/fairlead/console/v1/config_set_service_pb'
import type { Project } from '../../gen/fairlead/console/v1/project_service_pb'

// The entries that are written in a resource; those of imports and backends have no names here.
export function entriesOf(path: string, resource: Message): string[] {
  if (path === 'configset') return Object.keys((resource as ConfigSet).spec?.entries ?? {}).sort()
  if (path === 'project') return Object.keys((resource as Project).spec?.config ?? {}).sort()
  return []
}

// Whether services may get values from it. All services of a project name it: the hub is asked only where it has values.
export const hasUsers = (path: string, resource: Message) =>
  path === 'project'
    ? entriesOf(path, resource).length > 0
    : ['configset', 'secret', 'backend'].includes(path)

// A row for each entry of each service, as a table is saved.
export const rowsOf = (users: ConfigUser[]) =>
  users.flatMap((u) =>
    u.entries.map((e) => ({
      service: u.service,
      cluster: u.cluster,
      entry: e.name,
      from: e.origin,
      over: e.overriddenBy,
    })),
  )

// What a service gets from a resource, or what it has from elsewhere instead.
export const namesOf = (u: ConfigUser, overridden: boolean) =>
  u.entries
    .filter((e) => (e.overriddenBy !== '') === overridden)
    .map((e) => (overridden ? `${e.name} (${e.overriddenBy})` : e.name))
    .join(', ')
