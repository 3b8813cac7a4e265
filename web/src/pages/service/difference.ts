import type { FieldDiff } from '../../gen/fairlead/delivery/v1/detail_pb'
import { plain } from '../../ui/text'

const most = 1100

// The values of a field in the cluster and as they would be. Of a Secret the agent reads no value and sends neither: they differ, and stay hidden.
export function valuesOf(of: Pick<FieldDiff, 'live' | 'wanted'>): [live: string, wanted: string] | undefined {
  if (of.live === '' && of.wanted === '') return undefined
  return [plain(of.live, most) || 'not there', plain(of.wanted, most) || 'not there']
}
