import { Link, useLocation } from 'react-router'
import { Title } from '../../ui/Panel'
import { plain } from '../../ui/text'

export function Missing() {
  const { pathname } = useLocation()
  return (
    <>
      <Title tab="Not found">There is no page {plain(pathname, 200)}</Title>
      <p>
        Go to <Link to="/">Fleet</Link> or <Link to="/services">Services</Link>.
      </p>
    </>
  )
}
