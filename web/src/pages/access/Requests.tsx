import { durationFromMs } from '@bufbuild/protobuf/wkt'
import { useMutation, useQuery } from '@connectrpc/connect-query'
import { keepPreviousData } from '@tanstack/react-query'
import { useRef, useState } from 'react'
import { Link, useSearchParams } from 'react-router'
import { AccessService } from '../../gen/fairlead/console/v1/access_service_pb'
import {
  type AccessRequest,
  AccessRequestState,
  LendingService,
} from '../../gen/fairlead/console/v1/lending_service_pb'
import { failureOf } from '../../hub/errors'
import { Age } from '../../live/Age'
import { age } from '../../live/ages'
import { Until } from '../../live/Until'
import { State } from '../../state/State'
import type { State as Name } from '../../state/states'
import { put, useChange } from '../../ui/address'
import { Export } from '../../ui/Export'
import { questionOf, useHeld } from '../../ui/held'
import { List } from '../../ui/List'
import { Opened } from '../../ui/Opened'
import { useOnce } from '../../ui/once'
import { Empty, Pager, usePages } from '../../ui/Pager'
import { Failed } from '../../ui/Panel'
import { isoOf, plain } from '../../ui/text'

const size = 100

const states: Record<number, [Name, string]> = {
  [AccessRequestState.WAITING]: ['waiting', 'waits'],
  [AccessRequestState.APPROVED]: ['healthy', 'lent'],
  [AccessRequestState.DENIED]: ['failed', 'denied'],
  [AccessRequestState.ENDED]: ['pending', 'ended'],
  [AccessRequestState.REVOKED]: ['pending', 'ended early'],
  [AccessRequestState.LAPSED]: ['pending', 'lapsed'],
}

// Access to clusters that is lent for a while: asked for by one person, and approved by another.
export function Requests() {
  const [params] = useSearchParams()
  const change = useChange()
  const all = params.get('all') === '1'
  const pages = usePages(String(all))
  const list = useQuery(
    LendingService.method.listAccessRequests,
    { all, pageSize: size, pageToken: pages.token },
    { placeholderData: keepPreviousData },
  )
  const caller = useQuery(AccessService.method.getCaller, {}, { refetchInterval: 60_000 })
  const found = list.data?.requests
  const changed = () => {
    held.own()
    void list.refetch()
  }
  const held = useHeld(questionOf(list, all, pages.token), found, (r) => r.id)
  const rows = held.rows.map((r) => ({
    id: r.id,
    state: states[r.state]?.[1] ?? '',
    subject: r.subject,
    role: r.role,
    cluster: r.cluster,
    reason: r.reason,
    created: isoOf(r.createTime),
    until: isoOf(r.untilTime),
    decider: r.decider,
    decision: r.decisionReason,
    revoker: r.revoker,
  }))
  return (
    <>
      <NewRequest changed={changed} />
      <div className="actions">
        <label>
          <input
            type="checkbox"
            checked={all}
            onChange={(e) => change((to) => put(to, 'all', e.target.checked ? '1' : ''))}
          />{' '}
          also those that are over
        </label>
        <Export name="access-requests" columns={Object.keys(rows[0] ?? {})} rows={rows} />
      </div>
      <List
        what="requests"
        of={list}
        count={found && held.rows.length}
        held={held}
        nothing={
          <Empty pages={pages}>
            <p>{all ? 'Nobody has asked.' : 'Nothing waits, and nothing is lent.'}</p>
          </Empty>
        }
      >
        <thead>
          <tr>
            {['Who', 'State', 'Role', 'Cluster', 'Why', 'Asked', 'Until', 'Decided', 'Actions'].map((t) => (
              <th scope="col" key={t}>
                {t}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {held.rows.map((r) => (
            <Row
              key={r.id}
              of={r}
              gone={held.waiting?.gone.has(r.id) ?? false}
              mine={r.subject === caller.data?.subject}
              changed={changed}
            />
          ))}
        </tbody>
      </List>
      <Pager pages={pages} next={list.data?.nextPageToken ?? ''} size={size} total={undefined} />
    </>
  )
}

function Row({
  of,
  gone,
  mine,
  changed,
}: {
  of: AccessRequest
  gone: boolean // it is not in the list any more
  mine: boolean
  changed: () => void
}) {
  const [state, word] = states[of.state] ?? ['unknown', '']
  const waits = !gone && of.state === AccessRequestState.WAITING
  const lent = !gone && of.state === AccessRequestState.APPROVED
  return (
    <tr className={gone ? 'stale' : undefined}>
      <td className="name">{plain(of.subject, 300)}</td>
      <td>
        <State of={state} word={word} />
      </td>
      <td>{plain(of.role, 63)}</td>
      <td>
        <Link to={`/cluster/${of.cluster}`}>{plain(of.cluster, 63)}</Link>
      </td>
      <td>{plain(of.reason, 1024)}</td>
      <td>
        <Age of={of.createTime} />
        {waits && of.duration && ` for ${age(Number(of.duration.seconds) * 1000)}`}
      </td>
      <td>{(waits || lent) && <Until of={of.untilTime} over="over" none="" />}</td>
      <td>
        {plain(of.revoker || of.decider, 300)} {plain(of.revocationReason || of.decisionReason, 1024)}
      </td>
      <td className="actions">
        {waits && !mine && <Decide verb="Approve" of={of} changed={changed} />}
        {waits && !mine && <Decide verb="Deny" of={of} changed={changed} />}
        {(lent || (waits && mine)) && <Decide verb={lent ? 'End' : 'Take back'} of={of} changed={changed} />}
      </td>
    </tr>
  )
}

const words = {
  Approve: 'The role is lent from now on, for as long as was asked for, and ends by itself.',
  Deny: 'Nothing is lent. The reason is shown to the person.',
  End: 'The role is gone at once. Shells and streams that run by it end within 30 seconds.',
  'Take back': 'Nobody can approve the request any more.',
}

function Decide({ verb, of, changed }: { verb: keyof typeof words; of: AccessRequest; changed: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null)
  const once = useOnce()
  const { approveAccessRequest, denyAccessRequest, revokeAccessRequest } = LendingService.method
  const done = {
    onSettled: once.settled,
    onSuccess: () => {
      dialog.current?.close()
      changed()
    },
  }
  const approve = useMutation(approveAccessRequest, done)
  const deny = useMutation(denyAccessRequest, done)
  const revoke = useMutation(revokeAccessRequest, done)
  const sent = verb === 'Approve' ? approve : verb === 'Deny' ? deny : revoke
  const title = `${verb}: ${of.role} on ${of.cluster} for ${of.subject}`
  return (
    <>
      <button
        type="button"
        onClick={() => {
          if (!once.sent) sent.reset()
          dialog.current?.showModal()
        }}
      >
        {verb}
      </button>
      <dialog ref={dialog} aria-label={plain(title, 400)}>
        <h2>{plain(title, 400)}</h2>
        <p>{words[verb]}</p>
        <p className="quiet">{plain(of.reason, 1024)}</p>
        <form
          onSubmit={(e) => {
            e.preventDefault()
            const reason = String(new FormData(e.currentTarget).get('reason') ?? '')
            once.send(() => sent.mutate({ id: of.id, reason }))
          }}
        >
          <label>
            Reason
            <input name="reason" maxLength={1024} required={verb === 'Deny'} />
          </label>
          {sent.error && <Failed failure={failureOf(sent.error)} />}
          <div className="actions">
            <button type="submit" disabled={sent.isPending}>
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

const lengths: [string, number][] = [
  ['15 minutes', 15],
  ['an hour', 60],
  ['8 hours', 480],
  ['a day', 1440],
  ['a week', 10_080],
]

function NewRequest({ changed }: { changed: () => void }) {
  const [params] = useSearchParams()
  const form = useRef<HTMLFormElement>(null)
  const [cluster, setCluster] = useState(params.get('cluster') ?? '')
  const once = useOnce()
  const made = useMutation(LendingService.method.createAccessRequest, {
    onSettled: once.settled,
    onSuccess: () => {
      form.current?.reset()
      setCluster('')
      changed()
    },
  })
  return (
    <Opened
      name="ask"
      byItself={params.has('cluster')}
      className="panel"
      summary="Ask for access to a cluster"
    >
      <form
        ref={form}
        className="fields"
        onSubmit={(e) => {
          e.preventDefault()
          const typed = new FormData(e.currentTarget)
          once.send(() =>
            made.mutate({
              cluster: cluster.trim(),
              role: String(typed.get('role') ?? '').trim(),
              reason: String(typed.get('reason') ?? ''),
              duration: durationFromMs(Number(typed.get('minutes')) * 60_000),
            }),
          )
        }}
      >
        <label>
          Cluster
          <input
            value={cluster}
            onChange={(e) => setCluster(e.target.value)}
            required
            maxLength={63}
            placeholder="edge-1"
            spellCheck={false}
          />
        </label>
        <label>
          Role
          <input name="role" list="roles" required maxLength={63} defaultValue="viewer" spellCheck={false} />
          <datalist id="roles">
            {['viewer', 'deployer', 'operator', 'admin'].map((r) => (
              <option key={r} value={r} />
            ))}
          </datalist>
        </label>
        <label>
          For
          <select name="minutes" defaultValue="60">
            {lengths.map(([text, minutes]) => (
              <option key={minutes} value={minutes}>
                {text}
              </option>
            ))}
          </select>
        </label>
        <label>
          Reason
          <input name="reason" required maxLength={1024} />
        </label>
        {made.error && <Failed failure={failureOf(made.error)} />}
        {made.isSuccess && <p role="status">The request waits for somebody who may approve it.</p>}
        <button type="submit" disabled={made.isPending}>
          Ask
        </button>
      </form>
    </Opened>
  )
}
