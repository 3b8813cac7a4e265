import { within } from '../hub/clock'
import type { Consequence } from '../ui/Consequences'
import { amount, mostOfKind, ofKind } from '../ui/text'
import { type Kind, pathOf } from './kinds'
import { type Ask, json, Refused } from './request'
import type { Metadata } from './table'

type Of = {
  metadata: Metadata & { finalizers?: string[] }
  spec?: Record<string, unknown> | undefined
}

// Kinds that are counted in a namespace; more are said to be left out.
const mostKinds = 80
const atOnce = 8
// How long the count of one kind may take.
const mostWait = 30_000

// What goes with an object, or holds its deletion up, as far as the cluster tells the person.
export async function consequencesOf(ask: Ask, kind: Kind, kinds: Kind[], of: Of): Promise<Consequence[]> {
  const { name = '', ownerReferences, finalizers } = of.metadata
  const out: Consequence[] = []
  const owner = ownerReferences?.find((o) => o.controller)
  if (owner) out.push(`${owner.kind} ${owner.name} owns it, and may make another one at once.`)
  if (finalizers?.length) out.push(`It stays until its finalizers are done: ${finalizers.join(', ')}.`)
  const key = `${kind.group}/${kind.plural}`
  if (key === '/namespaces') {
    const inside = kinds.filter((k) => k.namespaced && k.verbs.includes('delete') && k.plural !== 'events')
    const counted = await counts(
      ask,
      inside.slice(0, mostKinds).map((k) => ({ kind: k, path: pathOf(k, name) })),
    )
    const found = counted.filter((c) => c.count > 0).map((c) => ofKind(c.kind.kind, c.names, c.count))
    const unseen = counted.filter((c) => c.count < 0).length + Math.max(0, inside.length - mostKinds)
    out.push(
      found.length > 0
        ? { says: 'Everything in it goes:', each: found }
        : unseen > 0
          ? 'Everything in it goes. You may see nothing of it.'
          : 'Nothing is in it.',
    )
    if (unseen > 0) out.push(`${amount(unseen, 'kind')} in it could not be counted.`)
  } else if (key === 'apiextensions.k8s.io/customresourcedefinitions') {
    const { group = '', names } = (of.spec ?? {}) as {
      group?: string
      names?: { plural?: string; kind?: string }
    }
    const custom = kinds.find((k) => k.group === group && k.plural === names?.plural)
    const [found] = custom ? await counts(ask, [{ kind: custom, path: pathOf(custom) }]) : []
    out.push(
      found && found.count >= 0
        ? `${amount(found.count, 'object')} of kind ${names?.kind} ${found.count === 1 ? 'goes' : 'go'} with it, in all namespaces.`
        : `All objects of kind ${names?.kind} go with it, in all namespaces.`,
    )
  } else if (key === '/nodes') {
    const pods = kinds.find((k) => k.group === '' && k.plural === 'pods')
    const [found] = pods
      ? await counts(ask, [{ kind: pods, path: pathOf(pods) }], `spec.nodeName=${name}`)
      : []
    out.push(
      `${found && found.count >= 0 ? amount(found.count, 'pod') : 'All pods'} on it ${found?.count === 1 ? 'is' : 'are'} given up; its machine goes on.`,
    )
  } else if (key === '/persistentvolumeclaims' || key === '/persistentvolumes')
    out.push('The data in it may be deleted, as the reclaim policy says.')
  else if (kind.group === 'apps' || kind.group === 'batch') out.push('The pods that it made go with it.')
  return out
}

// How many objects there are, and the names of the first of them; -1: the cluster does not say, as where the person may not see them. A cluster that says nothing at all is an error: what goes
// with a deletion is not made up.
async function counts(ask: Ask, of: { kind: Kind; path: string }[], fieldSelector = '') {
  const out: { kind: Kind; count: number; names: string[] }[] = []
  const failures: unknown[] = []
  const waiting = [...of]
  const work = async () => {
    for (let next = waiting.shift(); next; next = waiting.shift()) {
      const { kind, path } = next
      // Rows without their objects: those of Secrets may hold values in annotations.
      const query = new URLSearchParams({
        limit: String(mostOfKind),
        includeObject: 'None',
        ...(fieldSelector ? { fieldSelector } : {}),
      })
      try {
        const list = await within(mostWait, undefined, (signal) =>
          json<{
            rows?: { cells?: unknown[] }[]
            metadata?: { remainingItemCount?: number; continue?: string }
          }>(
            ask(`${path}?${query}`, {
              signal,
              headers: { Accept: 'application/json;as=Table;v=v1;g=meta.k8s.io' },
            }),
          ),
        )
        const rows = list.rows ?? []
        const count = rows.length + (list.metadata?.remainingItemCount ?? 0)
        // The first cell of a table of the API server is the name.
        const names = rows.flatMap(({ cells: [name] = [] }) => (typeof name === 'string' ? [name] : []))
        // A list by fields does not say how many remain.
        out.push({
          kind,
          count: list.metadata?.continue && list.metadata.remainingItemCount === undefined ? -1 : count,
          names,
        })
      } catch (e) {
        if (!(e instanceof Refused) || e.status >= 500) failures.push(e)
        out.push({ kind, count: -1, names: [] })
      }
    }
  }
  await Promise.all(Array.from({ length: atOnce }, work))
  if (failures.length > 0 && failures.length === of.length) throw failures[0]
  return out.sort((a, b) => a.kind.kind.localeCompare(b.kind.kind))
}
