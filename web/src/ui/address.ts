import { useCallback } from 'react'
import { useLocation, useNavigate } from 'react-router'

// Changes what stands in the address after the question mark. A change begins with what the address says at that moment: what was drawn last may be older,
// and would take back what a person did just before. One who has left the page by then, while it was still drawn, is not led back.
export function useChange() {
  const navigate = useNavigate()
  const { pathname } = useLocation()
  return useCallback(
    (edit: (params: URLSearchParams) => void, options?: { replace: boolean }) => {
      const { origin, pathname: now, search } = window.location
      if (new URL(pathname, origin).pathname !== now) return
      const params = new URLSearchParams(search)
      edit(params)
      void navigate(`?${params}`, options)
    },
    [navigate, pathname],
  )
}

// Sets a value, or removes what is empty.
export function put(params: URLSearchParams, key: string, value: string) {
  if (value) params.set(key, value)
  else params.delete(key)
}
