package distributor

import (
	"net/http"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/services/distributor/internal/edge"
	"fairlead.dev/services/distributor/internal/rpc"
)

// unstoredBytes of artifacts are held in memory while the disk is full or fails.
const unstoredBytes = 64 << 20

// artifacts serves what is on this node, and fetches what is not.
func (s *Service) artifacts(agents *rpc.Delivery, origin *edge.Edge) http.Handler {
	return s.store.FillHandler(func(r *http.Request, d artifact.Digest) error {
		result, err := "refused", agents.Authorize(r, d)
		switch {
		case err != nil:
		case s.store.Has(d):
			result = "hit"
		default:
			result = "miss"
		}
		s.metrics.Gets.WithLabelValues(result).Inc()
		return err
	}, origin.Fetch)
}
