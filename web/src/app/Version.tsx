import { pageVersion, useHub } from '../hub/about'
import { plain } from '../ui/text'

// The versions of hub and page: one, unless the hub was upgraded since the page was loaded.
export function Version() {
  const hub = plain(useHub().data?.version ?? '', 64)
  const page = pageVersion(hub)
  if (hub === '') return null
  return (
    <span className="version quiet">
      Fairlead {hub}
      {page !== hub && <>, this page is of {page}</>}
    </span>
  )
}
