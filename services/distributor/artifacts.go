package distributor

import (
	"net/http"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/audit"
	"fairlead.dev/platform/identity"
	"fairlead.dev/services/distributor/internal/edge"
)

// unstoredBytes of artifacts are held in memory while the disk is full or fails.
const unstoredBytes = 64 << 20

// artifacts serves what is on this node, and fetches what is not.
func (s *Service) artifacts(origin *edge.Edge) http.Handler {
	refusals := &audit.Refusals{Recorder: s.replica.Audit, Log: s.deps.Log}
	return s.store.FillHandler(func(r *http.Request, d artifact.Digest) error {
		result, err := "hit", s.authorize(r, d)
		switch {
		case err != nil:
			result = "refused"
			refusals.Artifact(r, string(d), "no service of the cluster uses it, and it came with no valid ticket")
		case !s.store.Has(d):
			result = "miss"
		}
		s.metrics.Gets.WithLabelValues(result).Inc()
		return err
	}, origin.Fetch)
}

// authorize gives a cluster what its services use, and what another distributor delivered to it, of which
// this one may not know yet. All else does not exist for it. A request for anything else is written down, in log and
// audit trail: an agent is told its digests, and has no need to guess.
func (s *Service) authorize(r *http.Request, d artifact.Digest) error {
	id, _ := identity.FromContext(r.Context())
	if id.Kind == identity.KindAgent && (s.plan.Uses(id.Name, d) || s.replica.Tickets().Valid(r, id.ClusterUID, d)) {
		return nil
	}
	return artifact.ErrNotFound
}
