import type { Service } from '../gen/fairlead/console/v1/resources_pb'
import { SyncMode } from '../gen/fairlead/delivery/v1/options_pb'
import { plain, shortCommit } from '../ui/text'

export const modes: Record<number, string> = {
  [SyncMode.DRY_RUN]: 'dry run',
  [SyncMode.HOLD]: 'held',
  [SyncMode.SUSPEND]: 'suspended',
  [SyncMode.MANUAL]: 'manual mode',
}

// The levers that are pulled, in a few words.
export function leversOf(of: Service): string {
  const sync = of.spec?.sync
  const pulled = [modes[sync?.mode ?? 0], sync?.pin && `pinned to ${shortCommit(sync.pin)}`].filter(Boolean)
  if (pulled.length === 0) return ''
  const lever = of.levers?.mode ?? of.levers?.pin
  const reason = lever?.reason || sync?.reason
  return plain(
    `‖ ${pulled.join(', ')}${lever?.author ? `, ${lever.author}` : ''}${reason ? `: ${reason}` : ''}`,
    300,
  )
}
