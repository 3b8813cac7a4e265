import { useCallback } from 'react'
import { useLocation, useNavigate } from 'react-router'

// Changes the query of the address. A change begins with the query at that moment: the page may have been drawn with an older one, which would take back the
// change before. A person who has followed a link by then, while this page was still drawn, is not led back.
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

// Sets a value of a query; an empty value removes the key.
export function put(params: URLSearchParams, key: string, value: string) {
  if (value) params.set(key, value)
  else params.delete(key)
}
