package view

import (
	"fmt"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
)

// Distance is how far what runs in a cluster is behind what a service's ref points to.
type Distance struct {
	// Commits that change the folder; more: there are others.
	Commits int
	More    bool
	// Apart: what runs is not among the commits that the ref leads to, as after a force-push.
	Apart bool
}

// syncText says whether what the ref of a service points to runs in its cluster, or how many commits that change its
// folder are missing there; and how many objects others have changed.
func (v View) syncText(s *consolev1.Service) string {
	status := s.GetStatus()
	report := status.GetCluster().GetReport()
	running, wanted := RunningCommit(status), status.GetGit().GetRevision().GetCommit()
	applied, handed := report.GetAppliedDigest(), status.GetHub().GetDigest()
	// The digest of a service that is healthy differs for a moment after a lever, which changes no content.
	differs := applied != "" && handed != "" && applied != handed &&
		status.GetState() != consolev1.ServiceState_SERVICE_STATE_HEALTHY
	text := ""
	switch d, known := v.Behind[s.GetMetadata().GetName()]; {
	case running == "" || wanted == "":
		return ""
	case running == wanted && !differs:
		text = "in sync"
	case !known || running == wanted:
		text = "behind"
	case d.Apart:
		text = "another line"
	case d.More:
		text = fmt.Sprintf("%d+ behind", d.Commits)
	case d.Commits > 0:
		text = fmt.Sprintf("%d behind", d.Commits)
	case differs: // by what is not in the folder, such as a folder that it refers to
		text = "behind"
	default:
		text = "in sync" // no commit since changes the folder
	}
	if n := report.GetObjectsDrifted(); n > 0 {
		text += fmt.Sprintf(", %d drifted", n)
	}
	return text
}
