package event

// Trouble names what an event begins that another one ends, such as ServiceUnhealthy; empty: it begins nothing that
// lasts. Names stay the same over releases, as types do.
func Trouble(typ string) string {
	switch typ {
	case ServiceDegraded, ServiceFailed, ServiceRemovalFailed:
		return "ServiceUnhealthy"
	case ServiceTestsFailed:
		return "ServiceTestsFailed"
	case ConfigFailing:
		return "ConfigurationFailing"
	case GuardTripped:
		return "RemovalGuarded"
	case SourceFailing:
		return "SourceFailing"
	case ClusterLost:
		return "ClusterLost"
	case SinkFailing:
		return "SinkFailing"
	case RemovalsHeld:
		return "RemovalsHeld"
	case AlertFiring:
		return "AlertFiring"
	}
	return ""
}

// Ended are the types of events that begin what an event of a type ends; nil: it ends nothing.
func Ended(typ string) []string {
	switch typ {
	case ServiceHealthy:
		return []string{ServiceDegraded, ServiceFailed, ServiceRemovalFailed}
	case ServiceTestsPassed:
		return []string{ServiceTestsFailed}
	case ConfigRecovered:
		return []string{ConfigFailing}
	case GuardConfirmed, GuardReleased:
		return []string{GuardTripped}
	case SourceRecovered:
		return []string{SourceFailing}
	case ClusterBack, ClusterLeft:
		return []string{ClusterLost}
	case SinkRecovered:
		return []string{SinkFailing}
	case RemovalsConfirmed, RemovalsResolved:
		return []string{RemovalsHeld}
	case AlertResolved:
		return []string{AlertFiring}
	case ServiceDeleted, ServicePruned, ServiceMoved:
		return []string{
			ServiceDegraded, ServiceFailed, ServiceRemovalFailed, ServiceTestsFailed, ConfigFailing, GuardTripped,
		}
	}
	return nil
}
