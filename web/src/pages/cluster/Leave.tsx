import { LoginService } from '../../gen/fairlead/console/v1/login_service_pb'
import { useLever } from '../../ui/Ask'
import { Lose, sentBy } from '../../ui/Lose'
import { lossOfCluster } from '../../ui/losses'

// Takes the credentials of a cluster's agents away. The cluster stays in the catalog, and what is applied there stays.
export function Leave({ name, changed }: { name: string; changed: () => void }) {
  const leave = useLever(LoginService.method.leaveCluster, changed)
  return (
    <Lose
      verb="Leave"
      title={`Cluster ${name} leaves`}
      name={name}
      loss={() => lossOfCluster(name)}
      note="Nothing is deleted, there or here. It ends everywhere within 30 seconds."
      sure="Take its credentials away"
      sent={sentBy(leave, () => ({ cluster: name }))}
    />
  )
}
