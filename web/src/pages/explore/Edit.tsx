import { useMutation } from '@tanstack/react-query'
import { useState } from 'react'
import { type Kind, pathOf } from '../../cluster/kinds'
import { diffLines, type Operation, patchOf } from '../../cluster/patch'
import { type Ask, json } from '../../cluster/request'
import { useRight } from '../../cluster/rights'
import { failureOf } from '../../hub/errors'
import { Difference } from '../../ui/Difference'
import { useDraft } from '../../ui/draft'
import { Failed } from '../../ui/Panel'
import { plain } from '../../ui/text'
import { Yaml } from '../../ui/Yaml'
import { toYaml } from '../../ui/yaml'
import { appliedByFairlead } from './Actions'
import { type Thing, withoutManagers } from './Thing'

type Tried = { text: string; patch: Operation[]; after: Thing }

// Edits an object: the fields that were changed are sent as a patch, first for a dry run of the cluster, whose result is shown before anything is written.
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
  const [base, setBase] = useState(of) // what the person began with
  const begun = toYaml(editable(base))
  const draft = useDraft(
    `${cluster} ${kind.group}/${kind.plural} ${namespace}/${name} ${of.metadata.uid}`,
    begun,
  )
  const { text } = draft
  const [tried, setTried] = useState<Tried>()
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
        `${pathOf(kind, namespace, name)}?${new URLSearchParams({ fieldManager: 'fairlead-pages', ...(dry ? { dryRun: 'All' } : {}) })}`,
        {
          method: 'PATCH',
          headers: { 'Content-Type': 'application/json-patch+json' },
          body: JSON.stringify(patch),
        },
      ),
    )
  const look = useMutation({
    mutationFn: async () => {
      const { parseDocument } = await import('yaml')
      const document = parseDocument(text)
      const [problem] = document.errors
      if (problem) throw new Error(problem.message)
      const patch = patchOf(editable(base), document.toJS({ maxAliasCount: 100 }))
      return { text, patch, after: patch.length > 0 ? await send(patch, true) : base }
    },
    onSuccess: setTried,
    onError: () => setTried(undefined),
  })
  const write = useMutation({
    mutationFn: (patch: Operation[]) => send(patch, false),
    onSuccess: (after) => {
      setBase(after)
      draft.begin(toYaml(editable(after)))
      setTried(undefined)
      changed()
    },
  })
  const ready = tried !== undefined && tried.text === text && tried.patch.length > 0
  const lines = tried ? diffLines(toYaml(editable(base)), toYaml(editable(tried.after))) : []
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
          onClick={() => right.allowed && look.mutate()}
        >
          Show what changes
        </button>
        <button
          type="button"
          disabled={!ready || write.isPending}
          title={ready ? '' : 'Look at what changes first'}
          onClick={() => tried && write.mutate(tried.patch)}
        >
          Write
        </button>
        <button
          type="button"
          onClick={() => {
            setBase(of)
            draft.begin(toYaml(editable(of)))
            setTried(undefined)
          }}
        >
          Begin anew
        </button>
      </div>
      {look.error ? <Failed failure={failureOf(look.error)} /> : null}
      {write.error ? <Failed failure={failureOf(write.error)} /> : null}
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

// What a person may want to change: no status, and nothing that the API server keeps.
export function editable(of: Thing): Record<string, unknown> {
  const { status: _, ...rest } = withoutManagers(of)
  const { uid: _u, resourceVersion: _r, creationTimestamp: _c, ...metadata } = rest.metadata
  const kept = { ...metadata } as Record<string, unknown>
  delete kept.generation
  delete kept.selfLink
  return { ...rest, metadata: kept }
}
