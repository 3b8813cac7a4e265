import { ConnectError, createClient } from '@connectrpc/connect'
import { callUnaryMethod } from '@connectrpc/connect-query'
import { useMutation } from '@tanstack/react-query'
import { useEffect, useRef } from 'react'
import { useNavigate } from 'react-router'
import { ConfirmationWantedSchema } from '../gen/fairlead/console/v1/apply_service_pb'
import { RevisionService } from '../gen/fairlead/console/v1/revision_service_pb'
import { transport } from '../hub/transport'
import type { Loss } from './deletion'
import { orphanSays } from './detach'
import { Lose } from './Lose'
import { useOnce } from './once'
import type { ResourceKind } from './resources'
import { tray } from './tray'

// Deletes a resource after a look at what goes with it. What others still name the hub refuses, and says by whom. Where the hub itself wants a
// confirmation, its consequences are shown and asked for.
export function Delete({
  of,
  name,
  to,
  loss,
}: {
  of: ResourceKind
  name: string
  // The list that a person is led to afterwards.
  to: string
  loss?: () => Promise<Loss>
}) {
  const navigate = useNavigate()
  const given = useRef<AbortController>(undefined)
  const once = useOnce()
  const sent = useMutation({
    onSettled: once.settled,
    mutationFn: async ({ keep, confirmation }: { keep: Loss['keep']; confirmation: string }) => {
      given.current = new AbortController()
      const { signal } = given.current
      await keep?.first(signal)
      signal.throwIfAborted()
      return callUnaryMethod(transport, of.remove, {
        name,
        ...(confirmation ? { confirmation } : {}),
      } as never)
    },
    onSuccess: () => {
      // The values of a Secret go with it: it can't be made again.
      if (of.name !== 'Secret')
        tray.add(`Delete ${of.path} ${name}`, async () => {
          const hub = createClient(RevisionService, transport)
          const { resource } = await hub.undeleteResource({ kind: of.kind, name })
          const stays = resource?.resource.case === 'service' ? orphanSays(resource.resource.value) : ''
          return stays && `It has ${stays}.`
        })
      navigate(to)
    },
  })
  useEffect(() => () => given.current?.abort(), [])
  const [wanted] = sent.error ? ConnectError.from(sent.error).findDetails(ConfirmationWantedSchema) : []
  return (
    <Lose
      verb="Delete"
      title={`Delete ${of.name} ${name}`}
      name={name}
      loss={loss}
      says={wanted?.consequences.length ? wanted.consequences : undefined}
      note={
        of.name === 'Secret'
          ? 'Its values go with it and can not be brought back.'
          : 'For an hour it can be brought back: below, on the page of its name, or by fairlead undo.'
      }
      sure={wanted ? 'Delete it all the same' : 'Delete'}
      sent={{
        send: (keep) => once.send(() => sent.mutate({ keep, confirmation: wanted?.confirmation ?? '' })),
        error: sent.error,
        isPending: sent.isPending,
        reset: () => {
          given.current?.abort()
          if (!once.sent) sent.reset()
        },
      }}
    />
  )
}
