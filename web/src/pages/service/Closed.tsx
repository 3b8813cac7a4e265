import type { Service } from '../../gen/fairlead/console/v1/resources_pb'
import { Until } from '../../live/Until'
import { Opened } from '../../ui/Opened'
import { Said } from '../../ui/Said'
import { Windows } from '../../ui/Windows'

// What windows and freezes say of a service now, and when that changes.
export function Closed({ of }: { of: Service }) {
  const windows = of.status?.windows
  const own = of.spec?.sync?.windows ?? []
  if (!windows && own.length === 0) return null
  return (
    <section className={windows?.closed ? 'notice' : 'panel'} aria-label="Windows">
      {windows?.closed && (
        <div>
          <strong>‖</strong> <Said of={windows.message} max={1024} />{' '}
          <span className="quiet">
            Opens <Until of={windows.changeTime} over="now" none="when somebody opens it" />.
          </span>
        </div>
      )}
      {windows && !windows.closed && (
        <div>
          Its windows are open
          {windows.changeTime && (
            <>
              , and close <Until of={windows.changeTime} over="now" none="" />
            </>
          )}
          .
        </div>
      )}
      {windows?.fault && (
        <div className="cause">
          <Said of={windows.fault} max={600} />
        </div>
      )}
      {own.length > 0 && (
        <Opened
          name="windows"
          summary={own.length === 1 ? 'Its own window' : `Its own ${own.length} windows`}
        >
          <Windows of={own} name={of.metadata?.name ?? ''} />
        </Opened>
      )}
    </section>
  )
}
