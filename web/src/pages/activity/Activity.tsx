import { useSearchParams } from 'react-router'
import { EventsOf } from '../../ui/EventsOf'
import { Title } from '../../ui/Panel'
import { Search } from '../../ui/Search'
import { Tabs, useTab } from '../../ui/Tabs'
import { Audit } from './Audit'
import { eventFilter } from './filter'

const tabs = ['events', 'audit']

export function Activity() {
  const [params] = useSearchParams()
  const tab = useTab(tabs)
  return (
    <>
      <div className="head">
        <Title tab="Activity">Activity</Title>
        {tab === 'events' && <Search hint="word, or a filter: severity >= WARNING AND cluster = edge-1" />}
      </div>
      <Tabs names={tabs} />
      {tab === 'events' ? <EventsOf filter={eventFilter(params.get('q') ?? '')} size={100} /> : <Audit />}
    </>
  )
}
