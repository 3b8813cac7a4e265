// Package clusterview names the figures that the view of each cluster has, section by section. Agents count them, and
// consoles know them before, so that filters and alerts may ask for a figure that no agent has counted yet. Figures of
// ViewSets are not among them.
package clusterview

// Names of sections.
const (
	Nodes      = "nodes"
	Requests   = "requests"
	Pods       = "pods"
	Restarts   = "restarts"
	Pulls      = "pulls"
	Workloads  = "workloads"
	Claims     = "claims"
	Warnings   = "warnings"
	APIs       = "apis"
	Services   = "services"
	Used       = "used"
	Deprecated = "deprecated"
	Agent      = "agent"
)

const (
	// State begins the figures of section pods that count the states of pods, by name.
	State = "state."
	// AtLeast is 1 where more may have happened than was counted, Others counts warnings that are in no group, and
	// Unknown pods and claims of a phase that Kubernetes does not have.
	AtLeast, Others, Unknown = "at_least", "others", "unknown"
	// notWell ends the figures of workloads that are not well, by kind.
	notWell = "_not_well"
)

// Sections are all sections, in the order of a view.
func Sections() []string {
	return []string{
		Nodes, Requests, Pods, Restarts, Pulls, Workloads, Claims, Warnings, APIs, Services, Used, Deprecated, Agent,
	}
}

// Always are the figures of a section that agents count wherever they count the section.
func Always(section string) []string {
	switch section {
	case Nodes:
		return []string{
			"total", "ready", "not_ready", "pressure", "cordoned", "skewed", "cpu_capacity", "memory_capacity",
			"cpu_allocatable", "memory_allocatable", "pods_allocatable",
		}
	case Requests:
		return []string{"cpu", "memory", "pods", "waiting_cpu", "waiting_memory", "waiting_pods"}
	case Pods:
		return []string{"total", "pending", "running", "succeeded", "failed", Unknown, "not_ready"}
	case Restarts:
		return []string{"hour", "oom_killed_hour"}
	case Pulls:
		return []string{"pods", "images"}
	case Workloads:
		return []string{"total", "not_well", "ready", "desired", "jobs_failed", "cronjobs_suspended"}
	case Claims:
		return []string{"total", "bound", "pending", "lost", "terminating", "bound_bytes"}
	case Warnings:
		return []string{"hour", "groups"}
	case APIs:
		return []string{"groups", "versions"}
	case Services:
		return []string{"total"}
	case Used:
		return []string{"nodes", "cpu", "memory"}
	case Deprecated:
		return []string{"total", "applied"}
	case Agent:
		return []string{"credentials", "end_soon", "ended"}
	}
	return nil
}

// Sometimes are the other figures of a section, but for those that State begins.
func Sometimes(section string) []string {
	switch section {
	case Restarts:
		return []string{AtLeast}
	case Warnings:
		return []string{AtLeast, Others}
	case Claims:
		return []string{Unknown}
	case Workloads:
		var out []string
		for _, kind := range WorkloadKinds() {
			out = append(out, kind, NotWell(kind))
		}
		return out
	}
	return nil
}

// WorkloadKinds are the resources that section workloads counts. Each is a figure, too.
func WorkloadKinds() []string {
	return []string{"deployments", "statefulsets", "daemonsets", "replicasets", "jobs", "cronjobs"}
}

// NotWell is the figure of workloads of a kind that are not well.
func NotWell(kind string) string { return kind + notWell }
