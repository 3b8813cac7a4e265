import { useQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import { Link } from 'react-router'
import { key, listsFor, type Owned, readOwned } from '../../cluster/owned'
import { askOf } from '../../cluster/request'
import type { ClusterObject } from '../../gen/fairlead/console/v1/object_service_pb'
import { failureOf } from '../../hub/errors'
import { clock } from '../../live/ages'
import { State } from '../../state/State'
import { Failed } from '../../ui/Panel'
import { plain } from '../../ui/text'
import { explored } from './grouped'

// What the cluster has made for a service's objects, asked of its API server as the person while it is shown.
export function useOwned(cluster: string, objects: ClusterObject[], wanted: boolean) {
  const ask = useMemo(() => askOf(cluster), [cluster])
  const lists = wanted ? listsFor(objects.flatMap((o) => o.object ?? [])) : []
  return useQuery({
    queryKey: ['owned', cluster, lists],
    enabled: lists.length > 0,
    queryFn: () => readOwned(ask, lists),
    refetchInterval: 15_000,
  })
}

type Got = ReturnType<typeof useOwned>

// How old the branches are, or why there are none.
export function OwnedSays({ of }: { of: Got }) {
  if (of.error) return <Failed failure={failureOf(of.error)} again={() => void of.refetch()} />
  if (of.isFetching && !of.data) return <p className="quiet">Asking the cluster what it has made of them…</p>
  if (!of.data) return <p className="quiet">None of these objects has others made for it.</p>
  return (
    <p className="quiet">
      What the cluster has made of them: asked {clock(of.dataUpdatedAt)}.{' '}
      {of.data.cut.length > 0 && `Not all: there are more than 500 ${plain(of.data.cut.join(', '), 400)}.`}
    </p>
  )
}

// The branches below an object.
export function Branches({ of, object, cluster }: { of: Got; object: ClusterObject; cluster: string }) {
  const below = object.object && of.data?.owned.get(key(object.object))
  return below && below.length > 0 ? <Below list={below} cluster={cluster} stale={of.isError} /> : null
}

function Below({ list, cluster, stale }: { list: Owned[]; cluster: string; stale: boolean }) {
  return (
    <ul className={stale ? 'lines stale' : 'lines'}>
      {list.map((o) => (
        <li key={key(o)}>
          <State of={o.state} /> {o.kind} <Link to={explored(cluster, o)}>{plain(o.name, 300)}</Link>{' '}
          <span className="quiet">{plain(o.says, 300)}</span>
          {o.below.length > 0 && <Below list={o.below} cluster={cluster} stale={stale} />}
        </li>
      ))}
    </ul>
  )
}
