package trail

import (
	"fmt"
	"strings"

	"fairlead.dev/cli/internal/view"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
)

// holdAnnotation is how a person holds a service, or one of its objects, in the cluster.
const holdAnnotation = "fairlead.dev/hold"

// nextOfHold returns the step that ends a hold in the cluster; empty: the cluster holds nothing back.
func (t *Trail) nextOfHold(r *deliveryv1.ServiceReport) string {
	switch r.GetPhase() {
	case deliveryv1.Phase_PHASE_HELD, deliveryv1.Phase_PHASE_DIFFERS:
		name := t.Service.GetMetadata().GetName()
		return fmt.Sprintf("`fairlead diff service %s` shows what differs, %s", name, t.endOfHold(name, r.GetMessage()))
	case deliveryv1.Phase_PHASE_WAITING:
		return t.nextOfDependencies(r.GetMessage())
	}
	return ""
}

// EndOfClusterHold returns the command that ends the hold of a service by the annotation of its inventory, of the message
// of its report; empty: no annotation holds the service.
func EndOfClusterHold(name, message string) string {
	if !strings.HasPrefix(message, "Held by the annotation") {
		return ""
	}
	return fmt.Sprintf("`kubectl annotate configmap -n fairlead-system inventory.%s %s-` ends the hold in the cluster",
		name, holdAnnotation)
}

// endOfHold returns the command or moment that ends a hold, in the order in which an agent looks for one.
func (t *Trail) endOfHold(name, message string) string {
	windows, mode := t.Service.GetStatus().GetWindows(), t.Service.GetSpec().GetSync().GetMode()
	sync, closed := fmt.Sprintf("`fairlead sync service %s`", name), windows.GetClosed()
	if closed && !windows.GetManualSync() {
		sync = fmt.Sprintf("`fairlead sync service %s --override`", name)
	}
	if end := EndOfClusterHold(name, message); end != "" {
		return end
	}
	switch {
	case strings.Contains(message, holdAnnotation):
		return fmt.Sprintf("`kubectl annotate KIND NAME %s-` ends the hold of an object", holdAnnotation)
	case mode == deliveryv1.SyncMode_SYNC_MODE_MANUAL:
		return sync + " applies it"
	case view.ModeWord(mode) != "":
		return fmt.Sprintf("`fairlead resume service %s` ends the hold of the hub", name)
	case closed && view.IsSet(windows.GetChangeTime()):
		opens := t.UntilText(windows.GetChangeTime())
		return fmt.Sprintf("it is applied when the service opens, %s, and %s applies it before", opens, sync)
	case closed:
		return fmt.Sprintf("no end is in sight until the freeze is ended or the window changed, and %s applies it before",
			sync)
	}
	return t.lookInto()
}

// nextOfDependencies names the services that a service waits for, of those that it depends on.
func (t *Trail) nextOfDependencies(message string) string {
	var traces []string
	for _, name := range t.Service.GetSpec().GetSync().GetDependsOn() {
		if strings.Contains(message, fmt.Sprintf("service %q", name)) {
			traces = append(traces, fmt.Sprintf("`fairlead trace service %s`", name))
		}
	}
	if len(traces) == 0 {
		return ""
	}
	return "the service goes on when these are ready: see " + strings.Join(traces, " and ")
}
