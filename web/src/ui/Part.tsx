import { Component, type ReactNode, Suspense } from 'react'
import { useLocation } from 'react-router'
import { Waiting } from './Panel'
import { plain } from './text'

// A part of the page whose script is loaded when it is shown. Where it can't be loaded or drawn, the rest of the page stays, and says why.
export function Part({ what, children }: { what: string; children: ReactNode }) {
  const { key } = useLocation()
  return (
    <Boundary what={what} at={key}>
      <Suspense fallback={<Waiting what={what} />}>{children}</Suspense>
    </Boundary>
  )
}

type Held = { what: string; at: string; children: ReactNode }

// at is the place in the history of the tab: what another one shows may do without what failed.
class Boundary extends Component<Held, { failure: unknown }> {
  override state: { failure: unknown } = { failure: undefined }

  static getDerivedStateFromError = (thrown: unknown) => ({ failure: thrown ?? 'no reason is known' })

  override componentDidUpdate(before: Held) {
    if (before.at !== this.props.at && this.state.failure !== undefined) this.setState({ failure: undefined })
  }

  override render() {
    const { failure } = this.state
    if (failure === undefined) return this.props.children
    return (
      <div className="notice bad" role="alert">
        <div>
          This tab can't show {this.props.what}:{' '}
          {plain(failure instanceof Error ? failure.message : String(failure), 600)}
        </div>
        <div>The hub may be away, or may have other pages since an upgrade.</div>
        <div className="actions">
          <button type="button" onClick={() => window.location.reload()}>
            Load the page again
          </button>
          <span className="quiet">What you typed and did not send is lost by that.</span>
        </div>
      </div>
    )
  }
}
