import { useSearchParams } from 'react-router'
import { Title } from '../../ui/Panel'
import { Search } from '../../ui/Search'
import { Events } from './Events'
import { eventFilter } from './filter'

export function Activity() {
  const [params] = useSearchParams()
  return (
    <>
      <div className="head">
        <Title tab="Activity">Activity</Title>
        <Search hint="word, or a filter: severity >= WARNING AND cluster = edge-1" />
      </div>
      <Events filter={eventFilter(params.get('q') ?? '')} size={100} />
    </>
  )
}
