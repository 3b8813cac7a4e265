import type { Message } from '@bufbuild/protobuf'
import { ConnectError } from '@connectrpc/connect'
import { useMutation, useQuery } from '@connectrpc/connect-query'
import { Fragment, useRef, useState } from 'react'
import { Link, useSearchParams } from 'react-router'
import {
  ApplyOutcome,
  ApplyProblemsSchema,
  type ApplyResponse,
  ApplyService,
  ConfirmationWantedSchema,
  type Resource,
} from '../../gen/fairlead/console/v1/apply_service_pb'
import {
  type GlobalService,
  GlobalServiceService,
} from '../../gen/fairlead/console/v1/global_service_service_pb'
import type { Metadata, Service } from '../../gen/fairlead/console/v1/resources_pb'
import type { YamlEditor } from '../../heavy/yaml'
import { failureOf } from '../../hub/errors'
import { Difference } from '../../ui/Difference'
import { useDraft } from '../../ui/draft'
import { useOnce } from '../../ui/once'
import { Failed, Title, Waiting } from '../../ui/Panel'
import { Planned } from '../../ui/Planned'
import { held, kindNamed, kinds, manifest, type ResourceKind } from '../../ui/resources'
import { Said } from '../../ui/Said'
import { amount, plain } from '../../ui/text'
import { Values } from '../../ui/Values'
import { Yaml } from '../../ui/Yaml'
import { completeAt, type Problem, read } from './documents'

const outcomes: Record<number, string> = {
  [ApplyOutcome.CREATED]: 'is created',
  [ApplyOutcome.UPDATED]: 'changes',
  [ApplyOutcome.UNCHANGED]: 'stays as it is',
  [ApplyOutcome.DELETED]: 'is deleted',
}

// Any resource as YAML: what is wrong stands at its line, and a dry run shows what would change before it is written.
export default function Apply() {
  const [params] = useSearchParams()
  const of = kindNamed(params.get('kind') ?? '')
  const name = params.get('name') ?? ''
  if (of && name) return <Existing key={`${of.name}/${name}`} of={of} name={name} />
  return (
    <Editor
      key={of?.name ?? ''}
      title={of ? `New ${of.name}` : 'Apply'}
      text={begun(of)}
      etag=""
      draft={`new ${of?.name ?? ''}`}
    />
  )
}

const begun = (of: ResourceKind | undefined) =>
  of
    ? `apiVersion: fairlead.dev/v1\nkind: ${of.name}\nmetadata:\n  name: \n${of.name === 'Secret' ? 'data:\n  ' : 'spec:\n  '}`
    : ''

function Existing({ of, name }: { of: ResourceKind; name: string }) {
  const got = useQuery(of.get, { name } as never, {
    refetchInterval: false,
    refetchOnWindowFocus: false,
    staleTime: 0,
    gcTime: 0,
  })
  const resource = held(of.get, got.data) as (Message & { metadata?: Metadata | undefined }) | undefined
  if (got.error && !resource)
    return (
      <>
        <Title tab={name}>{plain(name, 80)}</Title>
        <Failed failure={failureOf(got.error)} again={() => void got.refetch()} />
      </>
    )
  if (!resource) return <Waiting what={`the ${of.name}`} />
  return (
    <Editor
      title={`Edit ${of.name} ${name}`}
      text={manifest(of, resource)}
      etag={resource.metadata?.etag ?? ''}
      draft={`${of.name} ${name}`}
      written={(answer) => {
        void got.refetch()
        return answer.results.find((r) => r.kind === of.kind && r.name === name)?.etag
      }}
    />
  )
}

function Editor({
  title,
  text: first,
  etag,
  draft: key,
  written,
}: {
  title: string
  text: string
  etag: string
  draft: string
  // Returns the etag that what is edited has now.
  written?: (answer: ApplyResponse) => string | undefined
}) {
  // What this page wrote over a version is what is edited, until the page has read it.
  const [own, setOwn] = useState<{ over: string; etag: string }>()
  const version = own?.over === etag ? own.etag : etag
  const draft = useDraft(key, first, version)
  const { text } = draft
  const [problems, setProblems] = useState<Problem[]>([])
  const [shown, setShown] = useState('') // the text that the last dry run was of
  const [sent, setSent] = useState<Resource[]>([]) // what stood in it
  const editor = useRef<YamlEditor>(undefined)
  const once = useOnce()
  const apply = useMutation(ApplyService.method.apply, { onSettled: once.settled })
  const [confirmation, setConfirmation] = useState<{ text: string; consequences: string[]; of: string }>()

  const send = (dryRun: boolean, confirmed = '') => {
    const found = read(text, draft.of)
    setProblems(found.problems)
    setConfirmation(undefined)
    if (found.problems.length > 0) {
      apply.reset()
      return
    }
    once.send(() =>
      apply.mutate(
        { resources: found.resources, dryRun, confirmation: confirmed },
        {
          onSuccess: (answer) => {
            setShown(text)
            setSent(found.resources)
            if (dryRun) return
            const now = written?.(answer) ?? version
            setOwn({ over: etag, etag: now })
            draft.written(text, now)
          },
          onError: (e) => {
            const error = ConnectError.from(e)
            setProblems(
              error.findDetails(ApplyProblemsSchema).flatMap((d) =>
                d.problems.map((p) => ({
                  line: found.lineOf(p.index, p.field),
                  message: `${p.field ? `${p.field}: ` : ''}${p.message}`,
                })),
              ),
            )
            const [wanted] = error.findDetails(ConfirmationWantedSchema)
            if (wanted)
              setConfirmation({ text: wanted.confirmation, consequences: wanted.consequences, of: text })
          },
        },
      ),
    )
  }
  const dry = apply.variables?.dryRun
  return (
    <>
      <div className="head">
        <Title tab={title}>{plain(title, 120)}</Title>
        <span className="end">
          <button type="button" disabled={apply.isPending} onClick={() => send(true)}>
            Show what changes
          </button>
          <button
            type="button"
            disabled={apply.isPending || shown !== text || !apply.isSuccess}
            title={shown === text ? '' : 'Look at what changes first'}
            onClick={() => send(false)}
          >
            Apply
          </button>
        </span>
      </div>
      {draft.of !== version && (
        <div className="notice" role="status">
          This is what you typed before. It was changed since you began, and the hub refuses to write over
          that.{' '}
          <button type="button" onClick={() => draft.begin(first)}>
            Begin anew
          </button>
        </div>
      )}
      {problems.length > 0 && (
        <div className="panel" role="alert" aria-label="Problems">
          <ul className="lines">
            {problems.slice(0, 50).map((p) => (
              <li key={`${p.line} ${p.message}`}>
                {p.line > 0 && (
                  <button type="button" onClick={() => editor.current?.goTo(p.line)}>
                    Line {p.line}
                  </button>
                )}{' '}
                {plain(p.message, 1000)}
              </li>
            ))}
          </ul>
        </div>
      )}
      {apply.error && problems.length === 0 && !confirmation && <Failed failure={failureOf(apply.error)} />}
      {confirmation?.of === text && (
        <div className="notice bad" role="alert">
          <p>
            <Said of={failureOf(apply.error).message} />
          </p>
          <ul>
            {confirmation.consequences.slice(0, 30).map((c) => (
              <li key={c}>{plain(c, 400)}</li>
            ))}
            {confirmation.consequences.length > 30 && (
              <li>and {(confirmation.consequences.length - 30).toLocaleString()} more</li>
            )}
          </ul>
          <button type="button" onClick={() => send(false, confirmation.text)}>
            Do it
          </button>
        </div>
      )}
      {apply.isSuccess && shown === text && <Results of={apply.data} sent={sent} dry={dry ?? false} />}
      <Yaml
        text={text}
        changed={draft.type}
        problems={problems}
        complete={completeAt}
        editor={(of) => {
          editor.current = of
        }}
      />
      <p className="quiet">
        As <code>fairlead apply -f</code> reads it; several documents stand between lines of <code>---</code>.{' '}
        {kinds.map((k) => (
          <Fragment key={k.name}>
            <Link to={`/apply?kind=${k.name}`}>{k.name}</Link>{' '}
          </Fragment>
        ))}
      </p>
    </>
  )
}

function Results({ of, sent, dry }: { of: ApplyResponse; sent: Resource[]; dry: boolean }) {
  const drafts = new Map(
    sent.flatMap(({ resource: r }) =>
      r.case === 'service' ? [[r.value.metadata?.name, r.value] as const] : [],
    ),
  )
  const globals = new Map(
    sent.flatMap(({ resource: r }) =>
      r.case === 'globalService' ? [[r.value.metadata?.name, r.value] as const] : [],
    ),
  )
  return (
    <section className="panel" role="status" aria-label="What changes">
      <h2>{dry ? 'What would change' : 'Written'}</h2>
      <Touched of={of} dry={dry} />
      <ul className="lines">
        {of.results.map((r) => {
          const kind = kinds.find((k) => k.kind === r.kind)
          const draft = dry && kind?.name === 'Service' ? drafts.get(r.name) : undefined
          const global = dry && kind?.name === 'GlobalService' ? globals.get(r.name) : undefined
          return (
            <li key={`${r.kind} ${r.name}`}>
              {kind?.name} {dry ? r.name : <Link to={`/${kind?.path}/${r.name}`}>{r.name}</Link>}{' '}
              {outcomes[r.outcome] ?? ''}
              {r.note && <div className="notice">{plain(r.note, 1000)}</div>}
              {r.diff && <Difference text={r.diff} />}
              {draft && <Configuration draft={draft} />}
              {global && <OnClusters draft={global} />}
            </li>
          )
        })}
      </ul>
    </section>
  )
}

// What a service that is not written yet would be configured with. The hub is asked when a person wants to see it.
function Configuration({ draft }: { draft: Service }) {
  const [open, setOpen] = useState(false)
  return (
    <details onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>Its configuration, and where each value would come from</summary>
      {open && <Values of={{ case: 'draft', value: draft }} />}
    </details>
  )
}

// Which clusters a global service that is not written yet fits, and what it would do on each.
function OnClusters({ draft }: { draft: GlobalService }) {
  const preview = useQuery(
    GlobalServiceService.method.previewGlobalService,
    { globalService: draft },
    { refetchInterval: false, gcTime: 0, staleTime: Number.POSITIVE_INFINITY },
  )
  if (preview.error) return <Failed failure={failureOf(preview.error)} again={() => void preview.refetch()} />
  if (!preview.data) return <Waiting what="the clusters that it fits" />
  return (
    <section aria-label="On the clusters">
      <Planned of={preview.data} name={draft.metadata?.name ?? ''} />
    </section>
  )
}

// Kinds whose values services are configured with.
const configures = ['ConfigSet', 'Secret', 'Backend', 'Project', 'Cluster', 'Service']

// The services that get another configuration by it, with the entries that become others.
function Touched({ of, dry }: { of: ApplyResponse; dry: boolean }) {
  const { touchedServices: services, touchedTotal: total } = of
  if (total === 0) {
    const some = of.results.some(
      (r) =>
        r.outcome !== ApplyOutcome.UNCHANGED &&
        configures.includes(kinds.find((k) => k.kind === r.kind)?.name ?? ''),
    )
    return some ? (
      <p className="quiet">No service {dry ? 'would get' : 'gets'} another configuration.</p>
    ) : null
  }
  const count = amount(total, 'service')
  return (
    <details open={total <= 20}>
      <summary>
        {count} {dry ? 'would get' : total === 1 ? 'gets' : 'get'} another configuration
      </summary>
      <ul className="lines">
        {services.map((s) => (
          <li key={s.name}>
            <Link to={`/service/${s.name}?tab=config`}>{plain(s.name, 63)}</Link>{' '}
            <span className="quiet">at {plain(s.cluster, 63)}</span>{' '}
            {s.entries.length > 0 && <code>{plain(s.entries.join(', '), 400)}</code>}
            {s.problem && <div className="cause">It keeps its values: {plain(s.problem, 600)}</div>}
          </li>
        ))}
      </ul>
      {total > services.length && (
        <p className="quiet">{(total - services.length).toLocaleString()} more are not listed here.</p>
      )}
    </details>
  )
}
