import type { TokenLimits } from '../../gen/fairlead/console/v1/service_account_service_pb'

// What a token may at most, in words.
export function limitsSay(of: TokenLimits | undefined): string {
  const { role = '', projects = [], clusters } = of ?? {}
  const names = clusters?.names ?? []
  const labels = Object.entries(clusters?.labels ?? {}).map(([k, v]) => `${k}=${v}`)
  const says = [
    ...(role ? [`role ${role}`] : []),
    ...(projects.length ? [`in ${projects.join(', ')}`] : []),
    ...(names.length ? [`on ${names.join(', ')}`] : []),
    ...(labels.length ? [`on clusters with ${labels.sort().join(', ')}`] : []),
  ]
  return says.join(', ') || 'all that its owner may'
}

const words = (text: string) => [...new Set(text.split(/[\s,]+/).filter(Boolean))]

// Text as a shell takes it for one word.
const word = (text: string) => (/^[\w./:@-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`)

// The command that makes the token which a person described.
export function commandOf(typed: Record<string, string>): string {
  const flag = (name: string, value: string | undefined) =>
    value?.trim() ? [`--${name} ${word(value.trim())}`] : []
  return [
    'fairlead token create',
    ...flag('service-account', typed.account),
    ...flag('description', typed.description),
    ...(Number(typed.days) > 0 ? [`--lifetime ${Number(typed.days) * 24}h`] : []),
    ...flag('role', typed.role),
    ...words(typed.projects ?? '').map((p) => `--project ${word(p)}`),
    ...words(typed.clusters ?? '').map((c) => `--cluster ${word(c)}`),
  ].join(' ')
}
