import { useMutation } from '@tanstack/react-query'
import { useState } from 'react'
import { type Kind, pathOf } from '../../cluster/kinds'
import { type Conflict, conflictsOf, diffLines, type Operation, patchOf, same } from '../../cluster/patch'
import { type Ask, json } from '../../cluster/request'
import { useRight } from '../../cluster/rights'
import { failureOf } from '../../hub/errors'
import { Difference } from '../../ui/Difference'
import { begunWith, useDraft } from '../../ui/draft'
import { useOnce } from '../../ui/once'
import { Failed } from '../../ui/Panel'
import { plain } from '../../ui/text'
import { Yaml } from '../../ui/Yaml'
import { toYaml } from '../../ui/yaml'
import { appliedByFairlead } from './Actions'
import { type Thing, withoutManagers } from './Thing'

// wanted: what the text says. before: the object as the dry run found it. Others may have changed it since the person began.
type Tried = { text: string; wanted: Thing; patch: Operation[]; before: Thing; after: Thing }

class Conflicting extends Error {
  constructor(readonly conflicts: Conflict[]) {
    super('Somebody else has changed it, too.')
  }
}

// Edits an object: the fields that were changed are sent as a patch, first for a dry run of the cluster, whose result is shown before anything is written.
// A draft is compared with what it began with, so that what others changed meanwhile stays, or refuses it.
export function Edit({
  cluster,
  ask,
  kind,
  of,
  changed,
}: {
  cluster: string
  ask: Ask
  kind: Kind
  of: Thing
  changed: () => void
}) {
  const { namespace = '', name = '' } = of.metadata
  const path = pathOf(kind, namespace, name)
  const key = `${cluster} ${kind.group}/${kind.plural} ${namespace}/${name} ${of.metadata.uid}`
  const [base, setBase] = useState(() => begunWith(key, of))
  const draft = useDraft(key, toYaml(editable(base)), base)
  const { text } = draft
  const [tried, setTried] = useState<Tried>()
  const [overwritten, setOverwritten] = useState<Thing>() // what is shown until the page has read what was written
  const once = useOnce()
  const right = useRight(cluster, ask, {
    verb: 'patch',
    group: kind.group,
    resource: kind.plural,
    name,
    ...(namespace ? { namespace } : {}),
  })
  const send = (patch: Operation[], dry: boolean) =>
    json<Thing>(
      ask(
        `${path}?${new URLSearchParams({ fieldManager: 'fairlead-pages', ...(dry ? { dryRun: 'All' } : {}) })}`,
        {
          method: 'PATCH',
          headers: { 'Content-Type': 'application/json-patch+json' },
          body: JSON.stringify(patch),
        },
      ),
    )
  const attempt = async (patch: Operation[], dry: boolean) => {
    const before = await json<Thing>(ask(path))
    const conflicts = conflictsOf(patch, editable(before))
    if (conflicts.length > 0) throw new Conflicting(conflicts)
    return { before, after: await send(patch, dry) }
  }
  const look = useMutation({
    mutationFn: async () => {
      const { parseDocument } = await import('yaml')
      const document = parseDocument(text)
      const [problem] = document.errors
      if (problem) throw new Error(problem.message)
      const wanted = document.toJS({ maxAliasCount: 100 })
      const patch = patchOf(editable(base), wanted)
      return {
        text,
        wanted,
        patch,
        ...(patch.length > 0 ? await attempt(patch, true) : { before: base, after: base }),
      }
    },
    onSuccess: setTried,
    onError: () => setTried(undefined),
  })
  const write = useMutation({
    mutationFn: ({ patch }: Tried) => attempt(patch, false),
    onSettled: once.settled,
    onSuccess: ({ after }, sent) => {
      // What is typed meanwhile stays, as a change of what was sent.
      const isWhole = draft.written(sent.text, sent.wanted)
      setBase(isWhole ? after : sent.wanted)
      setOverwritten(of)
      if (isWhole) draft.begin(toYaml(editable(after)))
      setTried(undefined)
      changed()
    },
  })
  const ready = tried !== undefined && tried.text === text && tried.patch.length > 0
  const lines = tried ? diffLines(toYaml(editable(tried.before)), toYaml(editable(tried.after))) : []
  const isOld = of !== overwritten && !same(editable(base), editable(of))
  const again = () => {
    setBase(of)
    draft.begin(toYaml(editable(of)))
    setTried(undefined)
    look.reset()
    write.reset()
  }
  return (
    <>
      {appliedByFairlead(of) && (
        <div className="notice">
          A service of Fairlead applies this object from Git and undoes a change of its fields: hold the
          service first, or change it in Git.
        </div>
      )}
      {!right.allowed && <div className="notice bad">{plain(right.reason, 400)}</div>}
      <div className="actions">
        <button
          type="button"
          disabled={look.isPending}
          aria-disabled={!right.allowed}
          onClick={() => {
            if (!right.allowed) return
            write.reset()
            look.mutate()
          }}
        >
          Show what changes
        </button>
        <button
          type="button"
          disabled={!ready || write.isPending}
          title={ready ? '' : 'Look at what changes first'}
          onClick={() => tried && once.send(() => write.mutate(tried))}
        >
          Write
        </button>
        <button type="button" onClick={again}>
          Begin anew
        </button>
      </div>
      {isOld && (
        <div className="notice" role="status">
          It was changed since you began. Your change of a field that somebody else changed, too, is refused;
          what else they changed stays.
        </div>
      )}
      <Refusal of={write.error ?? look.error} />
      {write.isSuccess && !tried && <p role="status">Written.</p>}
      {tried && tried.patch.length === 0 && <p role="status">Nothing differs.</p>}
      {tried && tried.patch.length > 0 && (
        <section className="panel" aria-label="What changes">
          <h3>What the cluster would make of it</h3>
          <Difference text={lines.map((l) => `${l.sign} ${l.text}`).join('\n')} />
        </section>
      )}
      <Yaml text={text} changed={draft.type} />
    </>
  )
}

export function Refusal({ of }: { of: Error | null }) {
  if (!of) return null
  if (!(of instanceof Conflicting)) return <Failed failure={failureOf(of)} />
  return (
    <div className="notice bad" role="alert">
      <p>
        Nothing is written: since you began, somebody else changed what you changed. Copy what you need of it,
        and begin anew.
      </p>
      <ul>
        {of.conflicts.slice(0, 30).map((c) => (
          <li key={c.path}>
            <code>{plain(c.path, 400)}</code> {c.was === null ? 'was not there' : `was ${said(c.was)}`}, and{' '}
            {c.now === undefined ? 'is gone' : `is ${said(c.now)}`} now
          </li>
        ))}
        {of.conflicts.length > 30 && <li>and {(of.conflicts.length - 30).toLocaleString()} more</li>}
      </ul>
    </div>
  )
}

const said = (value: unknown) => plain(JSON.stringify(value), 200)

// What a person may want to change: no status, and nothing that the API server keeps.
export function editable(of: Thing): Record<string, unknown> {
  const { status: _, ...rest } = withoutManagers(of)
  const { uid: _u, resourceVersion: _r, creationTimestamp: _c, ...metadata } = rest.metadata
  const kept = { ...metadata } as Record<string, unknown>
  delete kept.generation
  delete kept.selfLink
  return { ...rest, metadata: kept }
}
