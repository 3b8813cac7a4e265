import { fromJsonString } from '@bufbuild/protobuf'
import { Code, ConnectError } from '@connectrpc/connect'
import { type ServiceDetail, ServiceDetailSchema } from '../gen/fairlead/delivery/v1/detail_pb'
import type { PackServiceResponse } from '../gen/fairlead/gitcache/v1/source_pb'
import { type Clock, clock, within } from '../hub/clock'
import { type Ask, Refused, read } from './request'

// An answer has half a MiB of changes at most, by the contract.
const mostAnswer = 4 << 20
// A folder goes through the tunnel as it is, up to this.
export const mostFolder = 32 << 20
// How long an agent may take to hear of what the hub hands out, or be busy, with all questions; and what is between two of them.
const patience = 15_000
const pause = 1_000
// A folder is sent whole each time.
const pauseWithFolder = 4_000
// How long one question may take: behind a network that is cut no answer comes, and no error. A folder is sent and rendered first.
const mostWait = 30_000
const mostWaitWithFolder = 120_000
// A gitcache may have to fetch the revision first.
const packTimeout = 180_000

export type Folder = { commit: string; files: number; tar: Blob }

// What a sync of a service would change in its cluster, as its agent finds now by dry runs of the API server, as the person. With a folder: what the
// service would be with that. handedOut is the digest that the hub hands out by now; empty: any. refused gets the words of each answer after which the page
// asks again: not each reason goes by.
export async function compare(
  ask: Ask,
  service: string,
  of: { handedOut?: () => string; folder?: Blob; refused?: (words: string) => void },
  signal: AbortSignal,
  at: Clock = clock,
): Promise<ServiceDetail> {
  const began = at.now()
  const late = () => at.now() - began >= patience
  for (;;) {
    try {
      const found = await within(of.folder ? mostWaitWithFolder : mostWait, signal, (ends) =>
        once(ask, service, of.folder, ends),
      )
      const wanted = of.handedOut?.() ?? ''
      if (of.folder || !wanted || found.digest === wanted || late()) return found
    } catch (e) {
      if (!(e instanceof Refused) || e.status !== 503 || late()) throw e
      of.refused?.(e.rawMessage)
    }
    await at.wait(of.folder ? pauseWithFolder : pause, signal)
    signal.throwIfAborted()
  }
}

async function once(
  ask: Ask,
  service: string,
  folder: Blob | undefined,
  signal: AbortSignal,
): Promise<ServiceDetail> {
  const answer = await ask(`/fairlead/v1/services/${encodeURIComponent(service)}/diff`, {
    signal,
    ...(folder ? { method: 'POST', body: folder, headers: { 'Content-Type': 'application/x-tar' } } : {}),
  })
  const found = fromJsonString(ServiceDetailSchema, await read(answer, mostAnswer), {
    ignoreUnknownFields: true,
  })
  if (found.detail.case !== 'diff')
    throw new ConnectError('Its agent is of an earlier version, which compares nothing.', Code.Unimplemented)
  return found
}

export type Pack = (
  r: { service: string; revision: string },
  o: { signal: AbortSignal; timeoutMs: number },
) => AsyncIterable<PackServiceResponse>

// The folder that a service would get from another revision of its source, as a gitcache packs it.
export async function packed(
  service: string,
  revision: string,
  signal: AbortSignal,
  pack: Pack,
): Promise<Folder> {
  const pieces: Uint8Array<ArrayBuffer>[] = []
  const out = { commit: '', files: 0 }
  let digest = ''
  let bytes = 0
  for await (const { part } of pack({ service, revision }, { signal, timeoutMs: packTimeout })) {
    if (part.case === 'service') {
      out.commit = part.value.revision?.commit ?? ''
      out.files = part.value.artifact?.files ?? 0
      digest = part.value.artifact?.digest ?? ''
    } else if (part.case === 'data') {
      bytes += part.value.byteLength
      if (bytes > mostFolder)
        throw new ConnectError(`The folder has more than ${mostFolder >> 20} MiB.`, Code.ResourceExhausted)
      pieces.push(part.value as Uint8Array<ArrayBuffer>)
    }
  }
  const tar = new Blob(pieces)
  const sum = new Uint8Array(await crypto.subtle.digest('SHA-256', await tar.arrayBuffer()))
  if (`sha256:${[...sum].map((b) => b.toString(16).padStart(2, '0')).join('')}` !== digest)
    throw new ConnectError('The folder did not come whole. Ask again.', Code.DataLoss)
  return { ...out, tar }
}

// What a service would be with another revision of its source. Nothing of the folder itself is in the result.
export async function compareTo(
  ask: Ask,
  service: string,
  revision: string,
  pack: Pack,
  refused: (words: string) => void,
  signal: AbortSignal,
): Promise<{ commit: string; files: number; found: ServiceDetail }> {
  const { commit, files, tar } = await packed(service, revision, signal, pack)
  return { commit, files, found: await compare(ask, service, { folder: tar, refused }, signal) }
}
