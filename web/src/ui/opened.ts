// Parts that a person has opened or shut, in the address: ?open=NAME&shut=NAME. More of them are no part of it: an address has an end.
const most = 100

// Whether a part is open. byItself: where nobody has opened or shut it.
export const isOpen = (params: URLSearchParams, name: string, byItself: boolean): boolean =>
  params.getAll('open').includes(name) || (byItself && !params.getAll('shut').includes(name))

// The address of a page on which a part was opened or shut.
export function withPart(params: URLSearchParams, name: string, byItself: boolean, open: boolean) {
  const next = new URLSearchParams(
    [...params].filter(([k, v]) => v !== name || (k !== 'open' && k !== 'shut')),
  )
  const key = open ? 'open' : 'shut'
  if (open !== byItself && next.getAll(key).length < most) next.append(key, name)
  return next
}
