import { createClient } from '@connectrpc/connect'
import { useQuery as useMethod } from '@connectrpc/connect-query'
import { useQuery } from '@tanstack/react-query'
import { useRef, useState } from 'react'
import { Link, useSearchParams } from 'react-router'
import { compare, compareTo } from '../../cluster/compare'
import { askOf } from '../../cluster/request'
import { ObjectService } from '../../gen/fairlead/console/v1/object_service_pb'
import type { Service } from '../../gen/fairlead/console/v1/resources_pb'
import { Change, type Diff as Found } from '../../gen/fairlead/delivery/v1/detail_pb'
import { SourceService } from '../../gen/fairlead/gitcache/v1/source_pb'
import { failureAt, failureOf } from '../../hub/errors'
import { transport } from '../../hub/transport'
import { Age } from '../../live/Age'
import { Opened } from '../../ui/Opened'
import { Failed, Waiting } from '../../ui/Panel'
import { Said } from '../../ui/Said'
import { amount, plain, sentence, shortCommit } from '../../ui/text'
import { valuesOf } from './difference'

const gitcache = createClient(SourceService, transport)

const words: Record<number, string> = {
  [Change.CREATE]: 'would be created',
  [Change.UPDATE]: 'would change',
  [Change.REMOVE]: 'would be removed',
  [Change.RECREATE]: 'would be deleted and made anew',
  [Change.REFUSED]: 'is refused by the cluster',
}

// A comparison is dear for the cluster: it is made when a person wants it.
const once = {
  retry: false,
  refetchInterval: false,
  refetchOnWindowFocus: false,
  refetchOnReconnect: false,
  staleTime: Number.POSITIVE_INFINITY,
  gcTime: 0,
} as const

// What a sync would change in the cluster, or with ?to=REVISION what the service would with another revision of its source.
export default function Diff({ of }: { of: Service }) {
  const [params] = useSearchParams()
  const to = params.get('to') ?? ''
  return (
    <>
      {to ? (
        <p>
          With <span className="mono">{plain(shortCommit(to), 255)}</span> in place of what the hub has.{' '}
          <Link to="?tab=diff">What a sync would change</Link>
        </p>
      ) : null}
      {to ? <DiffTo key={to} of={of} revision={to} /> : <DiffNow of={of} />}
    </>
  )
}

function DiffNow({ of }: { of: Service }) {
  const name = of.metadata?.name ?? ''
  const cluster = of.spec?.cluster ?? ''
  const handedOut = of.status?.hub?.digest ?? ''
  const newest = useRef(handedOut)
  newest.current = handedOut
  const [refusal, setRefusal] = useState('')
  const now = useQuery({
    queryKey: ['compare', cluster, name],
    queryFn: ({ signal }) => {
      setRefusal('')
      return compare(askOf(cluster), name, { handedOut: () => newest.current, refused: setRefusal }, signal)
    },
    ...once,
  })
  // Where the cluster can't be asked, what the agent found last still counts, with its age.
  const last = useMethod(
    ObjectService.method.getServiceDiff,
    { name },
    { enabled: now.isError, refetchInterval: false },
  )
  const again = () => void now.refetch()
  if (now.isFetching)
    return <Asking what={`what a sync would change on ${plain(cluster, 63)}`} refusal={refusal} />
  if (now.data?.detail.case === 'diff' && !now.isError)
    return (
      <>
        <Other digest={now.data.digest} handedOut={handedOut} />
        <Changes of={now.data.detail.value} at={now.data.observedTime} again={again} />
      </>
    )
  const why = now.error ? failureAt('tunnel', now.error) : undefined
  if (last.data?.diff)
    return (
      <>
        <p className="notice">
          The cluster can't be asked now: <Said of={sentence(why?.message ?? '')} max={600} /> This is what
          its agent found last.
        </p>
        <Other digest={last.data.digest} handedOut={handedOut} />
        <Changes of={last.data.diff} at={last.data.observedTime} again={again} />
      </>
    )
  if (last.isPending) return <Waiting what="what the agent found last" />
  return (
    <>
      {why && <Failed failure={why} again={again} />}
      <p className="quiet">
        And the hub has no comparison of before: {plain(failureOf(last.error).message, 600)}
      </p>
    </>
  )
}

// A comparison that is about other content than the hub hands out says so: an agent may not have heard of that, and a page stays open.
export function Other({ digest, handedOut }: { digest: string; handedOut: string }) {
  if (handedOut === '' || digest === handedOut) return null
  return (
    <p className="notice">
      The hub hands out something else by now: this is about what its agent had. Ask again once the agent has
      the newest.
    </p>
  )
}

function Asking({ what, refusal }: { what: string; refusal: string }) {
  return (
    <>
      <Waiting what={what} />
      {refusal && (
        <p className="quiet">
          So far the answer is: <Said of={sentence(refusal)} max={600} /> The page asks again.
        </p>
      )}
    </>
  )
}

export function DiffTo({ of, revision }: { of: Service; revision: string }) {
  const name = of.metadata?.name ?? ''
  const cluster = of.spec?.cluster ?? ''
  const [refusal, setRefusal] = useState('')
  const got = useQuery({
    queryKey: ['compare', cluster, name, revision],
    queryFn: ({ signal }) => {
      setRefusal('')
      return compareTo(askOf(cluster), name, revision, gitcache.packService, setRefusal, signal)
    },
    ...once,
  })
  const again = () => void got.refetch()
  if (got.isFetching)
    return (
      <Asking
        what={`${plain(shortCommit(revision), 255)}, and cluster ${plain(cluster, 63)} for a dry run of it`}
        refusal={refusal}
      />
    )
  if (got.error || !got.data) return <Failed failure={failureOf(got.error)} again={again} />
  const { commit, files, found } = got.data
  if (found.detail.case !== 'diff') return null
  return (
    <Changes of={found.detail.value} at={found.observedTime} again={again}>
      {amount(files, 'file')} of commit <span className="mono">{shortCommit(commit)}</span>:{' '}
    </Changes>
  )
}

function Changes({
  of: diff,
  at,
  again,
  children,
}: {
  of: Found
  at: Parameters<typeof Age>[0]['of']
  again: () => void
  children?: React.ReactNode
}) {
  return (
    <div className="panel" data-diff>
      <p>
        {children}
        {diff.removed} removed, {diff.changed} changed, {diff.created} created, {diff.unchanged} the same;
        found <Age of={at} /> ago{' '}
        <button type="button" onClick={again}>
          Again
        </button>
      </p>
      {diff.objects.map((o) => (
        <Opened
          key={`${o.group}/${o.kind}/${o.namespace}/${o.name}`}
          name={`${o.group}/${o.kind}/${o.namespace}/${o.name}`}
          byItself={diff.objects.length <= 20}
          summary={
            <>
              {plain(`${o.kind} ${o.namespace ? `${o.namespace}/` : ''}${o.name}`, 300)}{' '}
              <span className="quiet">{words[o.change] ?? ''}</span>
            </>
          }
        >
          {o.message && (
            <div className="notice">
              <Said of={o.message} />
            </div>
          )}
          <ul className="lines">
            {o.fields.map((f) => (
              <li key={f.pointer}>
                <span className="mono">{plain(f.pointer, 500)}</span>{' '}
                {f.manager && <span className="quiet">({plain(f.manager, 100)})</span>}
                <Values of={valuesOf(f)} />
              </li>
            ))}
          </ul>
        </Opened>
      ))}
    </div>
  )
}

function Values({ of }: { of: ReturnType<typeof valuesOf> }) {
  if (!of) return <span>would change, the values are hidden</span>
  return (
    <pre>
      <del>{of[0]}</del>
      {'\n'}
      <ins>{of[1]}</ins>
    </pre>
  )
}
