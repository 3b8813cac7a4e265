// Parts that a person has opened or shut, in the address: ?open=NAME&shut=NAME. More of them are no part of it: an address has an end.
const most = 100

// Whether a part is open. byItself: where nobody has opened or shut it.
export const isOpen = (params: URLSearchParams, name: string, byItself: boolean): boolean =>
  params.getAll('open').includes(name) || (byItself && !params.getAll('shut').includes(name))

// Says in an address that a part was opened or shut.
export function setPart(params: URLSearchParams, name: string, byItself: boolean, open: boolean) {
  for (const key of ['open', 'shut']) params.delete(key, name)
  const key = open ? 'open' : 'shut'
  if (open !== byItself && params.getAll(key).length < most) params.append(key, name)
}
