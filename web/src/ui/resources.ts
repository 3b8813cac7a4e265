import type {
  DescEnum,
  DescMessage,
  DescMethodUnary,
  JsonObject,
  JsonValue,
  Message,
} from '@bufbuild/protobuf'
import { toJson } from '@bufbuild/protobuf'
import { RoleSchema, RoleService } from '../gen/fairlead/console/v1/access_service_pb'
import { AgentConfigSchema, AgentConfigService } from '../gen/fairlead/console/v1/agent_config_service_pb'
import { AlertSchema, AlertService } from '../gen/fairlead/console/v1/alert_service_pb'
import { BackendSchema, BackendService } from '../gen/fairlead/console/v1/backend_service_pb'
import { Kind } from '../gen/fairlead/console/v1/catalog_service_pb'
import { ClusterService } from '../gen/fairlead/console/v1/cluster_service_pb'
import { ConfigSetSchema, ConfigSetService } from '../gen/fairlead/console/v1/config_set_service_pb'
import {
  GlobalServiceSchema,
  GlobalServiceService,
} from '../gen/fairlead/console/v1/global_service_service_pb'
import { GrantService } from '../gen/fairlead/console/v1/grant_service_pb'
import { ProjectSchema, ProjectService } from '../gen/fairlead/console/v1/project_service_pb'
import {
  ClusterSchema,
  GrantSchema,
  SecretSchema,
  ServiceSchema,
  SourceSchema,
} from '../gen/fairlead/console/v1/resources_pb'
import { SecretService } from '../gen/fairlead/console/v1/secret_service_pb'
import {
  ServiceAccountSchema,
  ServiceAccountService,
} from '../gen/fairlead/console/v1/service_account_service_pb'
import { ServiceService } from '../gen/fairlead/console/v1/service_service_pb'
import { SinkSchema, SinkService } from '../gen/fairlead/console/v1/sink_service_pb'
import { SourceService } from '../gen/fairlead/console/v1/source_service_pb'
import { ViewSetSchema, ViewSetService } from '../gen/fairlead/console/v1/view_set_service_pb'
import { toYaml } from './yaml'

// Each kind of resource: its word in addresses, as the command line has it, its name in YAML, and its methods.
export type ResourceKind = {
  path: string
  name: string
  plural: string
  kind: Kind
  schema: DescMessage
  list: DescMethodUnary
  get: DescMethodUnary
  remove: DescMethodUnary
}

const of = (
  path: string,
  name: string,
  plural: string,
  kind: Kind,
  schema: DescMessage,
  list: DescMethodUnary,
  get: DescMethodUnary,
  remove: DescMethodUnary,
): ResourceKind => ({ path, name, plural, kind, schema, list, get, remove })

export const kinds: ResourceKind[] = [
  of(
    'service',
    'Service',
    'services',
    Kind.SERVICE,
    ServiceSchema,
    ServiceService.method.listServices,
    ServiceService.method.getService,
    ServiceService.method.deleteService,
  ),
  of(
    'cluster',
    'Cluster',
    'clusters',
    Kind.CLUSTER,
    ClusterSchema,
    ClusterService.method.listClusters,
    ClusterService.method.getCluster,
    ClusterService.method.deleteCluster,
  ),
  of(
    'source',
    'Source',
    'sources',
    Kind.SOURCE,
    SourceSchema,
    SourceService.method.listSources,
    SourceService.method.getSource,
    SourceService.method.deleteSource,
  ),
  of(
    'globalservice',
    'GlobalService',
    'global services',
    Kind.GLOBAL_SERVICE,
    GlobalServiceSchema,
    GlobalServiceService.method.listGlobalServices,
    GlobalServiceService.method.getGlobalService,
    GlobalServiceService.method.deleteGlobalService,
  ),
  of(
    'project',
    'Project',
    'projects',
    Kind.PROJECT,
    ProjectSchema,
    ProjectService.method.listProjects,
    ProjectService.method.getProject,
    ProjectService.method.deleteProject,
  ),
  of(
    'role',
    'Role',
    'roles',
    Kind.ROLE,
    RoleSchema,
    RoleService.method.listRoles,
    RoleService.method.getRole,
    RoleService.method.deleteRole,
  ),
  of(
    'grant',
    'Grant',
    'grants',
    Kind.GRANT,
    GrantSchema,
    GrantService.method.listGrants,
    GrantService.method.getGrant,
    GrantService.method.deleteGrant,
  ),
  of(
    'serviceaccount',
    'ServiceAccount',
    'service accounts',
    Kind.SERVICE_ACCOUNT,
    ServiceAccountSchema,
    ServiceAccountService.method.listServiceAccounts,
    ServiceAccountService.method.getServiceAccount,
    ServiceAccountService.method.deleteServiceAccount,
  ),
  of(
    'configset',
    'ConfigSet',
    'configuration sets',
    Kind.CONFIG_SET,
    ConfigSetSchema,
    ConfigSetService.method.listConfigSets,
    ConfigSetService.method.getConfigSet,
    ConfigSetService.method.deleteConfigSet,
  ),
  of(
    'secret',
    'Secret',
    'secrets',
    Kind.SECRET,
    SecretSchema,
    SecretService.method.listSecrets,
    SecretService.method.getSecret,
    SecretService.method.deleteSecret,
  ),
  of(
    'backend',
    'Backend',
    'backends',
    Kind.BACKEND,
    BackendSchema,
    BackendService.method.listBackends,
    BackendService.method.getBackend,
    BackendService.method.deleteBackend,
  ),
  of(
    'sink',
    'Sink',
    'sinks',
    Kind.SINK,
    SinkSchema,
    SinkService.method.listSinks,
    SinkService.method.getSink,
    SinkService.method.deleteSink,
  ),
  of(
    'agentconfig',
    'AgentConfig',
    'configurations of agents',
    Kind.AGENT_CONFIG,
    AgentConfigSchema,
    AgentConfigService.method.listAgentConfigs,
    AgentConfigService.method.getAgentConfig,
    AgentConfigService.method.deleteAgentConfig,
  ),
  of(
    'viewset',
    'ViewSet',
    'view sets',
    Kind.VIEW_SET,
    ViewSetSchema,
    ViewSetService.method.listViewSets,
    ViewSetService.method.getViewSet,
    ViewSetService.method.deleteViewSet,
  ),
  of(
    'alert',
    'Alert',
    'alerts',
    Kind.ALERT,
    AlertSchema,
    AlertService.method.listAlerts,
    AlertService.method.getAlert,
    AlertService.method.deleteAlert,
  ),
]

export const kindAt = (path: string) => kinds.find((k) => k.path === path)
export const kindNamed = (name: string) => kinds.find((k) => k.name === name)

// The one field of a response that holds the resource, or the resources.
export function held(method: DescMethodUnary, answer: Message | undefined): unknown {
  const field = method.output.fields.find((f) => f.message)
  return field && answer ? (answer as unknown as Record<string, unknown>)[field.localName] : undefined
}

// A resource as files say it: words of enums and lengths of time as people write them, and maps in the order of their keys. The hub sends these in
// any order, and another one with each answer.
export function written(schema: DescMessage, resource: Message): JsonObject {
  return asWritten(schema, toJson(schema, resource)) as JsonObject
}

function asWritten(schema: DescMessage, json: JsonValue): JsonValue {
  if (schema.typeName === 'google.protobuf.Duration') return typeof json === 'string' ? lengthOf(json) : json
  if (json === null || typeof json !== 'object' || Array.isArray(json)) return json // a type that has a JSON of its own
  if (schema.typeName.startsWith('google.protobuf.')) return json
  const out: JsonObject = { ...json }
  for (const field of schema.fields) {
    const value = out[field.jsonName]
    if (value === undefined || value === null) continue
    const below = (v: JsonValue) => {
      if (field.message) return asWritten(field.message, v)
      return field.enum && typeof v === 'string' ? wordOf(field.enum, v) : v
    }
    if (field.fieldKind === 'map')
      out[field.jsonName] = Object.fromEntries(
        Object.entries(value as JsonObject)
          .sort(([a], [b]) => (a < b ? -1 : 1))
          .map(([key, v]) => [key, below(v)]),
      )
    else out[field.jsonName] = Array.isArray(value) ? value.map(below) : below(value)
  }
  return out
}

// The word of an enum in files: dry-run for SYNC_MODE_DRY_RUN.
export const wordOf = (of: DescEnum, name: string): string =>
  name
    .slice(name.startsWith((of.sharedPrefix ?? '').toUpperCase()) ? of.sharedPrefix?.length : 0)
    .toLowerCase()
    .replaceAll('_', '-')

// A length of time in files, of what the API's JSON has of it: 1h30m for 5400s.
export function lengthOf(json: string): string {
  const [, whole = '', fraction = ''] = /^(\d+)(\.\d+)?s$/.exec(json) ?? []
  const all = Number(whole)
  if (whole === '' || !Number.isSafeInteger(all)) return json
  const [h, m, s] = [Math.floor(all / 3600), Math.floor(all / 60) % 60, all % 60]
  const part = fraction.replace(/0+$/, '').replace(/^\.$/, '')
  const seconds = s > 0 || part !== '' || all === 0 ? `${s}${part}s` : ''
  return `${h > 0 ? `${h}h` : ''}${m > 0 ? `${m}m` : ''}${seconds}`
}

// A resource as `fairlead apply -f` takes it.
export function manifest(kind: ResourceKind, resource: Message): string {
  const all = written(kind.schema, resource)
  const { name, labels } = (all.metadata ?? {}) as JsonObject
  // Levers and freezes stand over what files say: spec is the files' own.
  const { metadata: _, status: __, levers, freeze: ___, ...rest } = all
  const spec = ((levers as JsonObject | undefined)?.spec ?? rest.spec) as JsonObject | undefined
  return toYaml({
    apiVersion: 'fairlead.dev/v1',
    kind: kind.name,
    metadata: labels ? { name, labels } : { name },
    ...rest,
    ...(spec ? { spec: withoutRequest(spec) } : {}),
  })
}

// No file says when a person asked for a sync, and of what.
function withoutRequest(spec: JsonObject): JsonObject {
  if (typeof spec.sync !== 'object') return spec
  const { requestTime: _, requestOverride: __, requestOnly: ___, ...sync } = spec.sync as JsonObject
  const { sync: ____, ...rest } = spec
  return Object.keys(sync).length > 0 ? { ...spec, sync } : rest
}
