import { isMissing } from '../../hub/errors'

export type Clusters = {
  getCluster: (r: { name: string }) => Promise<unknown>
  updateCluster: (r: {
    cluster: { metadata: { name: string; etag: string } }
    allowMissing: boolean
  }) => Promise<unknown>
}

// Makes the cluster that is to join, unless the catalog has it: then it stays as it is.
export async function ensureCluster(hub: Clusters, name: string): Promise<void> {
  try {
    await hub.getCluster({ name })
  } catch (e) {
    if (!isMissing(e)) throw e
    // The etag has the hub refuse to write over a cluster that somebody else has made meanwhile.
    await hub.updateCluster({ cluster: { metadata: { name, etag: 'new' } }, allowMissing: true })
  }
}
