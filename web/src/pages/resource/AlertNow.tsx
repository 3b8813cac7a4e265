import { createClient } from '@connectrpc/connect'
import { type Alert, AlertService } from '../../gen/fairlead/console/v1/alert_service_pb'
import { transport } from '../../hub/transport'
import { Age } from '../../live/Age'
import { AlertSays } from '../../ui/AlertSays'
import { Ask, useLever } from '../../ui/Ask'

const hub = createClient(AlertService, transport)

// What an alert has found, and what a person on call does about that: say that somebody works on it, or have it be silent for a while.
export function AlertNow({ of, name, changed }: { of: Alert; name: string; changed: () => void }) {
  const acknowledge = useLever(AlertService.method.acknowledgeAlert, changed)
  const silence = useLever(AlertService.method.silenceAlert, changed)
  const { firing = [], silence: silent, lookTime } = of.status ?? {}
  return (
    <section className="panel" aria-label="Now">
      <div className="head">
        <h2>Now</h2>
        <span className="quiet">
          {lookTime ? (
            <>
              looked at <Age of={lookTime} /> ago
            </>
          ) : (
            'no console has looked at it yet'
          )}
        </span>
        <span className="end">
          {firing.length > 0 && (
            <Ask
              key="Acknowledge"
              verb="Acknowledge"
              title={`Acknowledge alert ${name}`}
              words="Your name and reason are shown with the alert until what it found is over. What it finds next makes an event as before."
              wants
              lever={acknowledge}
              {...(firing.length > 1
                ? {
                    choices: [
                      ['All that it found', ''],
                      ...firing
                        .filter((g) => g.group !== '')
                        .map((g): [string, string] => [`Only ${g.group}`, g.group]),
                    ] as [string, string][],
                  }
                : {})}
              request={(reason, group) => ({ name, reason, group })}
            />
          )}
          {silent ? (
            <Ask
              key="Unsilence"
              verb="Unsilence"
              title={`End the silence of alert ${name}`}
              words="What it found meanwhile, and still holds, makes its event now."
              lever={silence}
              undo={() =>
                hub.silenceAlert({
                  name,
                  reason: silent.reason,
                  ...(silent.untilTime ? { untilTime: silent.untilTime } : {}),
                })
              }
              request={() => ({ name })}
            />
          ) : (
            <Ask
              key="Silence"
              verb="Silence"
              title={`Silence alert ${name}`}
              words="It makes no events about what begins meanwhile. What then still holds makes its event at the end. The reason is shown to everybody."
              wants
              ends="always"
              lever={silence}
              undo={() => hub.silenceAlert({ name })}
              request={(reason, _, until) => ({ name, reason, ...until })}
            />
          )}
        </span>
      </div>
      <AlertSays of={of} />
    </section>
  )
}
