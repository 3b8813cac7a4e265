import { useCallback } from 'react'
import { useNavigate } from 'react-router'

// Changes what stands in the address after the question mark. A change begins with what the address says at that moment: what was drawn last may be older,
// and would take back what a person did just before.
export function useChange() {
  const navigate = useNavigate()
  return useCallback(
    (edit: (params: URLSearchParams) => void, options?: { replace: boolean }) => {
      const params = new URLSearchParams(window.location.search)
      edit(params)
      void navigate(`?${params}`, options)
    },
    [navigate],
  )
}

// Sets a value, or removes what is empty.
export function put(params: URLSearchParams, key: string, value: string) {
  if (value) params.set(key, value)
  else params.delete(key)
}
