import { useQuery } from '@tanstack/react-query'
import { isNewer } from './newer'

// Says that the hub has other pages by now than those that this tab loaded. What is typed is lost by loading them, so the person chooses when.
export function Newer() {
  const script = document.querySelector<HTMLScriptElement>('script[type="module"][src]')
  const mine = script ? new URL(script.src).pathname : ''
  const got = useQuery({
    queryKey: ['document'],
    queryFn: async () => {
      const answer = await fetch('/', { headers: { Accept: 'text/html' }, cache: 'no-cache' })
      return answer.ok ? await answer.text() : ''
    },
    enabled: mine !== '',
    refetchInterval: 60_000,
    staleTime: 50_000,
  })
  if (!isNewer(got.data ?? '', mine)) return null
  return (
    <div className="notice" role="status">
      The hub has a newer version of this page.{' '}
      <button type="button" onClick={() => window.location.reload()}>
        Load it
      </button>{' '}
      <span className="quiet">What you typed and did not send goes with the old one.</span>
    </div>
  )
}
