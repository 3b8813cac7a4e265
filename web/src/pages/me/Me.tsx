import { useQuery } from '@tanstack/react-query'
import { failureOf } from '../../hub/errors'
import { getSession } from '../../hub/session'
import { Failed, Title, Waiting } from '../../ui/Panel'
import { plain } from '../../ui/text'

// Who one is here. A login in a window of its own ends at this page.
export function Me() {
  const { data, error, refetch } = useQuery({ queryKey: ['session'], queryFn: getSession })
  return (
    <>
      <Title tab="You">{plain(data?.user ?? 'You')}</Title>
      {error && !data && <Failed failure={failureOf(error)} again={() => void refetch()} />}
      {!data && !error && <Waiting what="your session" />}
      {data && (
        <section className="panel">
          <dl>
            <dt>Groups</dt>
            <dd>{plain(data.groups.join(', '), 2000) || 'none'}</dd>
            <dt>Session</dt>
            <dd>
              until {new Date(data.expireTime).toLocaleString()}; it is renewed while a page is open, until{' '}
              {new Date(data.endTime).toLocaleString()}
            </dd>
          </dl>
          <p className="quiet">If another window asked for this login, close this one and go on there.</p>
        </section>
      )}
    </>
  )
}
