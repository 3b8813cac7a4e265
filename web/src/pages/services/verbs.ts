import { Code, ConnectError } from '@connectrpc/connect'
import type { Service } from '../../gen/fairlead/console/v1/resources_pb'
import { type Answer, type Hub as Levers, undoAll, undoOf } from '../../state/undo'
import { amount, plain } from '../../ui/text'
import type { Tray } from '../../ui/tray'

type Hub = Levers & {
  requestSync: (r: { name: string }) => Promise<unknown>
}

export type Undo = () => Promise<unknown>

// What became of a lever of one service. error: why the hub refused it.
export type Outcome = { name: string; error: string; undo?: Undo | undefined }

export type Verb = {
  name: string
  words: string
  wants: boolean
  // once: has no Undo, so that nothing of the service is read before it.
  pull:
    | { once: (hub: Hub, name: string) => Promise<unknown> }
    | { from: (hub: Hub, name: string, reason: string, of: Service) => Promise<Answer> }
}

export const verbs: [Verb, ...Verb[]] = [
  {
    name: 'Sync',
    words: 'Each agent renders these services anew, compares them with its cluster and changes what differs.',
    wants: false,
    pull: { once: (hub, name) => hub.requestSync({ name }) },
  },
  {
    name: 'Hold',
    words:
      'What is applied stays, and newer revisions wait until somebody resumes the services. The reason is shown to everybody.',
    wants: true,
    pull: { from: (hub, name, reason) => hub.holdService({ name, reason }) },
  },
  {
    name: 'Resume',
    words: 'What waits is applied, and changes of others in the clusters are undone.',
    wants: false,
    pull: { from: (hub, name) => hub.resumeService({ name }) },
  },
  {
    name: 'Pin',
    words:
      'Each service stays at the commit that its cluster has now, wherever its ref points, until somebody unpins it. One that has applied nothing yet is refused.',
    wants: true,
    pull: {
      from: async (hub, name, reason, of) => {
        const commit = of.status?.cluster?.report?.appliedCommit ?? ''
        if (commit === '')
          throw new ConnectError('The cluster has applied no commit of it yet.', Code.FailedPrecondition)
        return hub.pinService({ name, commit, reason })
      },
    },
  },
  {
    name: 'Unpin',
    words: 'The services follow their refs again.',
    wants: false,
    pull: { from: (hub, name) => hub.pinService({ name, commit: '' }) },
  },
]

// Pulls a lever of one service, and returns how it is undone. A service is read before the lever: what it was is what Undo puts back.
export async function pull(hub: Hub, verb: Verb, name: string, reason: string): Promise<Undo | undefined> {
  if ('once' in verb.pull) {
    await verb.pull.once(hub, name)
    return undefined
  }
  const of = (await hub.getService({ name })).service
  if (!of) throw new ConnectError('The hub did not say how it is.', Code.NotFound)
  const answer = await verb.pull.from(hub, name, reason, of)
  const undo = undoOf(verb.name, of, hub)
  return undo && (() => undo(answer))
}

// Keeps how a lever of several services is undone, and what was refused where the page does not show it any more.
export function keep(tray: Tray, verb: Verb, came: Outcome[], isShown: boolean) {
  const title = (count: number) => `${verb.name} ${amount(count, 'service')}`
  const undos = came.flatMap((o): [string, Undo][] => (o.undo ? [[o.name, o.undo]] : []))
  if (undos.length > 0) tray.add(title(undos.length), undoAll(undos))
  const refused = came.filter((o) => o.error)
  if (refused.length === 0 || isShown) return
  const first = refused.slice(0, 5).map((o) => `${o.name}: ${plain(o.error, 200)}`)
  if (refused.length > first.length) first.push(`And ${refused.length - first.length} more.`)
  tray.refuse(title(refused.length), new Error(first.join('\n')))
}
