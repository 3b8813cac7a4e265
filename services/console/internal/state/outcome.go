package state

import "slices"

// Reported is the cluster's last report if it is on what the hub hands out, also of a cluster that is away; nil: there
// is none.
func (s *Service) Reported() *Report {
	if r := s.Status.Cluster.Report; r != nil && s.Status.Hub.Digest != "" && s.Status.Hub.reportedBy(r) {
		return r
	}
	return nil
}

// Applied says whether the cluster has applied what the hub hands out, by its last report.
func (s *Service) Applied() bool {
	r := s.Status.Cluster.Report
	return r != nil && s.Status.Hub.Digest != "" && s.Status.Hub.appliedBy(r)
}

// Followed is the newest commit of the service's ref, or of its pin; nil: the ref was not fetched yet.
func (s *Service) Followed() *Head { return s.FollowedTruth().Head }

// HandsOut says whether the hub hands out the content that had a digest.
func (h *HubTruth) HandsOut(digest string) bool {
	return h.Digest != "" && (h.Digest == digest || h.SameContent(digest, "") || slices.Contains(h.Alike, digest))
}
