import { Fragment } from 'react'
import { useParams } from 'react-router'

// keyed gives a page a life per name. Without, J and K leave what a person chose and typed for one thing on the page of its neighbour.
export const keyed = (name: string, page: React.ReactNode) => <Fragment key={name}>{page}</Fragment>

// A page about the thing with the name in the address.
export function Named({ children }: { children: React.ReactNode }) {
  const { name = '' } = useParams()
  return keyed(name, children)
}
