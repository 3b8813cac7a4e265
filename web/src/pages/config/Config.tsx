import type { Backend } from '../../gen/fairlead/console/v1/backend_service_pb'
import type { ConfigSet } from '../../gen/fairlead/console/v1/config_set_service_pb'
import type { Secret } from '../../gen/fairlead/console/v1/resources_pb'
import { State } from '../../state/State'
import { BackendSays } from '../../ui/BackendSays'
import { Title } from '../../ui/Panel'
import { Resources } from '../../ui/Resources'
import { kindAt, type ResourceKind } from '../../ui/resources'
import { Said } from '../../ui/Said'
import { Tabs, useTab } from '../../ui/Tabs'
import { amount, plain } from '../../ui/text'

const tabs = ['sets', 'secrets', 'backends']
const at = (path: string) => kindAt(path) as ResourceKind

export function Config() {
  const tab = useTab(tabs)
  return (
    <>
      <Title tab="Configuration">Configuration</Title>
      <p className="quiet">
        A service gets the values of its configuration sets, a later one over an earlier one, then those of
        its project, its cluster, and its own. The page of a service shows each value and where it comes from.
      </p>
      <Tabs names={tabs} />
      {tab === 'sets' && <Resources<ConfigSet> of={at('configset')} say={setSays} />}
      {tab === 'secrets' && <Resources<Secret> of={at('secret')} say={secretSays} />}
      {tab === 'backends' && <Resources<Backend> of={at('backend')} say={(b) => <BackendSays of={b} />} />}
    </>
  )
}

function setSays(c: ConfigSet) {
  const names = Object.keys(c.spec?.entries ?? {}).sort()
  return (
    <>
      {c.status?.problem && <State of="failed" note={c.status.problem.message} />}{' '}
      {plain(names.slice(0, 12).join(', '), 400) || 'no values of its own'}
      {names.length > 12 && ` and ${names.length - 12} more`}; used by{' '}
      {amount(c.status?.services ?? 0, 'service')}
      {c.status?.problem && (
        <div className="cause">
          <Said of={c.status.problem.message} max={600} />
        </div>
      )}
    </>
  )
}

// The values never leave the hub.
const secretSays = (s: Secret) =>
  `keys ${plain(Object.keys(s.data).sort().join(', '), 400)}; values are written, never shown`
