import { useMutation } from '@tanstack/react-query'
import { useLayoutEffect, useRef, useState } from 'react'
import { consequencesOf } from '../../cluster/consequences'
import { type Kind, pathOf } from '../../cluster/kinds'
import type { Ask } from '../../cluster/request'
import { type Right, useRight } from '../../cluster/rights'
import { failureOf } from '../../hub/errors'
import { handOnFocus } from '../../ui/Ask'
import { type Consequence, Consequences } from '../../ui/Consequences'
import { useOnce } from '../../ui/once'
import { Failed } from '../../ui/Panel'
import { amount, plain } from '../../ui/text'
import type { Thing } from './Thing'

const restarted = ['deployments', 'statefulsets', 'daemonsets']

// What a person can do with an object. What the cluster forbids is grey, and says why.
export function Actions({
  cluster,
  ask,
  kind,
  kinds,
  of,
  changed,
}: {
  cluster: string
  ask: Ask
  kind: Kind
  kinds: Kind[]
  of: Thing
  changed: () => void
}) {
  const { namespace = '', name = '', uid } = of.metadata
  const path = pathOf(kind, namespace, name)
  const wish = { group: kind.group, resource: kind.plural, name, ...(namespace ? { namespace } : {}) }
  const scales = kind.parts.includes('scale')
  const restarts = kind.group === 'apps' && restarted.includes(kind.plural)
  const scale = useRight(cluster, ask, { ...wish, verb: 'patch', subresource: 'scale' }, scales)
  const patch = useRight(cluster, ask, { ...wish, verb: 'patch' }, restarts)
  const remove = useRight(cluster, ask, { ...wish, verb: 'delete' }, kind.verbs.includes('delete'))
  const replicas = Number(of.spec?.replicas ?? 0)
  const undone = appliedByFairlead(of)
    ? 'A service of Fairlead applies this object from Git and undoes a change of its fields: hold the service first.'
    : ''
  return (
    <span className="end" data-actions>
      {scales && (
        <Act
          verb="Scale"
          title={`Scale ${name}`}
          right={scale}
          words={`It has ${amount(replicas, 'replica')}. ${undone}`}
          fields={
            <label>
              Replicas
              <input name="replicas" type="number" min="0" max="100000" required defaultValue={replicas} />
            </label>
          }
          act={(typed) =>
            ask(`${path}/scale`, {
              method: 'PATCH',
              headers: { 'Content-Type': 'application/merge-patch+json' },
              body: JSON.stringify({ spec: { replicas: Number(typed.get('replicas')) } }),
            })
          }
          done={changed}
        />
      )}
      {restarts && (
        <Act
          verb="Restart"
          title={`Restart ${name}`}
          right={patch}
          words={`Its pods are replaced one after the other, as its strategy says. ${undone}`}
          act={() =>
            ask(path, {
              method: 'PATCH',
              headers: { 'Content-Type': 'application/strategic-merge-patch+json' },
              body: JSON.stringify({
                spec: {
                  template: {
                    metadata: {
                      annotations: { 'kubectl.kubernetes.io/restartedAt': new Date().toISOString() },
                    },
                  },
                },
              }),
            })
          }
          done={changed}
        />
      )}
      {kind.verbs.includes('delete') && (
        <Act
          verb="Delete"
          apart
          title={`Delete ${kind.kind} ${name}`}
          right={remove}
          words={undone ? 'A service of Fairlead applies this object from Git, and makes it anew.' : ''}
          ask={() => consequencesOf(ask, kind, kinds, of)}
          typed={isLarge(kind) ? name : ''}
          act={() =>
            ask(path, {
              method: 'DELETE',
              headers: { 'Content-Type': 'application/json' },
              // The object that the person sees, and no other one that has its name by now.
              body: JSON.stringify({
                kind: 'DeleteOptions',
                apiVersion: 'v1',
                propagationPolicy: 'Background',
                ...(uid ? { preconditions: { uid } } : {}),
              }),
            })
          }
          done={changed}
        />
      )}
    </span>
  )
}

// Their deletion takes more along than what a person sees: the name has to be typed.
const isLarge = (k: Kind) =>
  [
    '/namespaces',
    '/nodes',
    '/persistentvolumes',
    '/persistentvolumeclaims',
    'apiextensions.k8s.io/customresourcedefinitions',
  ].includes(`${k.group}/${k.plural}`)

export const appliedByFairlead = (of: Thing) =>
  (of.metadata.managedFields ?? []).some((m) => m.manager === 'fairlead' && m.operation === 'Apply')

// A button that says beforehand what will happen, and keeps the focus while it can't be used.
export function Act({
  verb,
  title,
  right,
  words,
  apart,
  fields,
  ask,
  typed = '',
  act,
  done,
}: {
  verb: string
  title: string
  right: Right
  words: string
  apart?: boolean
  fields?: React.ReactNode
  ask?: () => Promise<Consequence[]>
  typed?: string
  act: (typed: FormData) => Promise<unknown>
  done: () => void
}) {
  const dialog = useRef<HTMLDialogElement>(null)
  const opener = useRef<HTMLButtonElement>(null)
  const [name, setName] = useState('')
  const once = useOnce()
  const sent = useMutation({
    mutationFn: act,
    onSettled: once.settled,
    onSuccess: () => {
      dialog.current?.close()
      done()
    },
  })
  const asked = useMutation({ mutationFn: async () => (await ask?.()) ?? [] })
  useLayoutEffect(() => () => handOnFocus(opener.current, dialog.current), [])
  return (
    <>
      <button
        ref={opener}
        type="button"
        className={apart ? 'apart' : undefined}
        aria-disabled={!right.allowed}
        title={right.allowed ? undefined : plain(right.reason, 400)}
        onClick={() => {
          if (!right.allowed) return
          if (!once.sent) sent.reset()
          setName('')
          dialog.current?.showModal()
          if (ask) asked.mutate()
        }}
      >
        {verb}
        {!right.allowed && <span className="hidden">: {plain(right.reason, 400)}</span>}
      </button>
      {/* What was asked before is asked again, with the focus on Cancel. */}
      <dialog ref={dialog} aria-label={plain(title, 320)} onClose={() => asked.reset()}>
        <h2>{plain(title, 320)}</h2>
        {words && <p>{words}</p>}
        {asked.isPending && <p role="status">Asking the cluster what goes with it…</p>}
        {asked.error ? <Failed failure={failureOf(asked.error)} again={() => asked.mutate()} /> : null}
        {asked.data && asked.data.length > 0 && <Consequences of={asked.data} />}
        <form
          onSubmit={(e) => {
            e.preventDefault()
            const typed = new FormData(e.currentTarget)
            once.send(() => sent.mutate(typed))
          }}
        >
          {fields}
          {typed && (
            <label>
              <span>
                Type <strong>{plain(typed, 260)}</strong> to go on
              </span>
              <input
                value={name}
                onChange={(e) => setName(e.target.value)}
                autoComplete="off"
                spellCheck={false}
              />
            </label>
          )}
          {sent.error ? <Failed failure={failureOf(sent.error)} /> : null}
          <div className="actions">
            <button
              type="submit"
              disabled={sent.isPending || name !== typed || (ask !== undefined && !asked.isSuccess)}
            >
              {verb}
            </button>
            <button type="button" onClick={() => dialog.current?.close()}>
              Cancel
            </button>
          </div>
        </form>
      </dialog>
    </>
  )
}
