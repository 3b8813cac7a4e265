import { createClient } from '@connectrpc/connect'
import { useQuery } from '@tanstack/react-query'
import { lazy } from 'react'
import { Link, useParams } from 'react-router'
import { castOf } from '../../cluster/cast'
import {
  RecordingService,
  type Recording as Resource,
} from '../../gen/fairlead/console/v1/recording_service_pb'
import { failureOf } from '../../hub/errors'
import { transport } from '../../hub/transport'
import { Age } from '../../live/Age'
import { save } from '../../ui/exported'
import { Failed, Title, Waiting } from '../../ui/Panel'
import { Part } from '../../ui/Part'
import { bytesOf, plain } from '../../ui/text'

const Player = lazy(() => import('../../heavy/Player'))

const client = createClient(RecordingService, transport)
// What a tab takes of a recording at most.
const most = 64 << 20

// What a person saw of a shell in a pod. Each reading of it is in the audit trail, so it is read once.
export function Recording() {
  const { id = '' } = useParams()
  const got = useQuery({
    queryKey: ['recording', id],
    queryFn: ({ signal }) => read(id, signal),
    staleTime: Number.POSITIVE_INFINITY,
    refetchInterval: false,
    refetchOnWindowFocus: false,
  })
  const of = got.data?.recording
  return (
    <>
      <div className="head">
        <Title tab="Recording">Recording of a shell</Title>
        {got.data && (
          <span className="end">
            <button
              type="button"
              onClick={() => save(`${id}.cast`, got.data.text, 'application/x-asciicast')}
            >
              Download
            </button>
          </span>
        )}
      </div>
      {got.error && !got.data && (
        <>
          <Failed failure={failureOf(got.error)} again={() => void got.refetch()} />
          <p>
            <Link to="/access?tab=recordings">All recordings</Link>
          </p>
        </>
      )}
      {got.isPending && <Waiting what="the recording" />}
      {of && <About of={of} />}
      {got.data?.cut && (
        <p className="notice">The recording is larger than 64 MiB: its beginning is shown.</p>
      )}
      {got.data && (
        <Part what="the player">
          {got.data.cast ? (
            <Player cast={got.data.cast} />
          ) : (
            <p className="notice">Nothing was shown in this shell yet.</p>
          )}
        </Part>
      )}
    </>
  )
}

function About({ of }: { of: Resource }) {
  return (
    <section className="panel">
      <dl>
        <dt>Whose shell</dt>
        <dd>{plain(of.subject, 300)}</dd>
        <dt>Where</dt>
        <dd>
          <Link to={`/cluster/${of.cluster}`}>{plain(of.cluster, 63)}</Link>{' '}
          {plain(`${of.namespace}/${of.pod} ${of.container} (${of.verb})`, 600)}
        </dd>
        <dt>Began</dt>
        <dd>
          <Age of={of.beginTime} /> ago{!of.endTime && ', and has no end yet'}
        </dd>
        <dt>Size</dt>
        <dd>{bytesOf(Number(of.bytes))}</dd>
        {of.incomplete && (
          <>
            <dt>Incomplete</dt>
            <dd>{plain(of.incomplete, 1024)}</dd>
          </>
        )}
      </dl>
    </section>
  )
}

async function read(id: string, signal: AbortSignal) {
  const decoder = new TextDecoder()
  let text = ''
  let after = 0n
  let bytes = 0
  let recording: Resource | undefined
  for (;;) {
    const part = await client.readRecording({ id, after }, { signal })
    recording ??= part.recording
    bytes += part.data.length
    text += decoder.decode(part.data, { stream: true })
    after = part.next
    if (after === 0n || bytes > most) break
  }
  return { recording, text, cut: after !== 0n, cast: text === '' ? undefined : castOf(text) }
}
