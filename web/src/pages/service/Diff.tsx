import { useQuery } from '@connectrpc/connect-query'
import { ObjectService } from '../../gen/fairlead/console/v1/object_service_pb'
import { Change } from '../../gen/fairlead/delivery/v1/detail_pb'
import { failureOf } from '../../hub/errors'
import { Age } from '../../live/Age'
import { Failed, Waiting } from '../../ui/Panel'
import { plain } from '../../ui/text'
import { valuesOf } from './difference'

const words: Record<number, string> = {
  [Change.CREATE]: 'would be created',
  [Change.UPDATE]: 'would change',
  [Change.REMOVE]: 'would be removed',
  [Change.RECREATE]: 'would be deleted and made anew',
  [Change.REFUSED]: 'is refused by the cluster',
}

// What a sync would change, as the agent found it in a dry run.
export function Diff({ service }: { service: string }) {
  const got = useQuery(ObjectService.method.getServiceDiff, { name: service })
  if (got.error && !got.data)
    return <Failed failure={failureOf(got.error)} again={() => void got.refetch()} />
  const diff = got.data?.diff
  if (!diff) return <Waiting what="the difference" />
  return (
    <div className="panel">
      <p>
        {diff.removed} removed, {diff.changed} changed, {diff.created} created, {diff.unchanged} the same;
        found <Age of={got.data?.observedTime} /> ago{' '}
        <button type="button" onClick={() => void got.refetch()}>
          Again
        </button>
      </p>
      {diff.objects.map((o) => (
        <details key={`${o.group}/${o.kind}/${o.namespace}/${o.name}`} open={diff.objects.length <= 20}>
          <summary>
            {plain(`${o.kind} ${o.namespace ? `${o.namespace}/` : ''}${o.name}`, 300)}{' '}
            <span className="quiet">{words[o.change] ?? ''}</span>
          </summary>
          {o.message && <div className="notice">{plain(o.message)}</div>}
          <ul className="lines">
            {o.fields.map((f) => (
              <li key={f.pointer}>
                <span className="mono">{plain(f.pointer, 500)}</span>{' '}
                {f.manager && <span className="quiet">({plain(f.manager, 100)})</span>}
                <Values of={valuesOf(f)} />
              </li>
            ))}
          </ul>
        </details>
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
