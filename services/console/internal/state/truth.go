package state

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"time"

	"fairlead.dev/services/console/internal/store"
)

// RefHub is from which commit services of a ref are handed out.
type RefHub struct {
	Source      string    `json:"-"` // uid
	Ref         string    `json:"-"`
	Revision    Revision  `json:"revision"`
	ResolveTime time.Time `json:"resolveTime,omitzero"`
}

// ReadHub reads a truth of the hub as it is stored. known is false where there is none.
func ReadHub(state []byte) (h HubTruth, known bool, err error) {
	if state == nil {
		return h, false, nil
	}
	if err := json.Unmarshal(state, &h); err != nil {
		return h, true, fmt.Errorf("decode hub truth: %w", err)
	}
	return h, true, nil
}

// RefsOf returns what is known of the refs of sources.
func RefsOf(ctx context.Context, v store.View, sources iter.Seq[string]) (map[store.HubRef]RefHub, error) {
	uids := map[string]bool{}
	for uid := range sources {
		uids[uid] = uid != ""
	}
	states, err := v.HubRefs(ctx, TrueKeys(uids))
	if err != nil {
		return nil, err
	}
	out := make(map[store.HubRef]RefHub, len(states))
	for key, state := range states {
		var r RefHub
		if err := json.Unmarshal(state, &r); err != nil {
			return nil, fmt.Errorf("decode ref %q: %w", key.Ref, err)
		}
		out[key] = r
	}
	return out, nil
}

// readHubs returns hub truths with the commits of the refs that they follow, by uid.
func readHubs(ctx context.Context, v store.View, states map[string][]byte) (map[string]HubTruth, error) {
	truths := make(map[string]HubTruth, len(states))
	for uid, state := range states {
		var err error
		if truths[uid], _, err = ReadHub(state); err != nil {
			return nil, fmt.Errorf("service %s: %w", uid, err)
		}
	}
	refs, err := RefsOf(ctx, v, func(yield func(string) bool) {
		for _, h := range truths {
			if h.Follows() && !yield(h.Source) {
				return
			}
		}
	})
	if err != nil {
		return nil, err
	}
	for uid, h := range truths {
		h.take(refs)
		truths[uid] = h
	}
	return truths, nil
}

// take sets the revision of the ref, if the truth follows one whose revision is known.
func (h *HubTruth) take(refs map[store.HubRef]RefHub) {
	if !h.Follows() {
		return
	}
	r, ok := refs[store.HubRef{Source: h.Source, Ref: h.Ref}]
	if !ok {
		return
	}
	h.Revision, h.ofRef = r.Revision, true
	if r.ResolveTime.After(h.ResolveTime) {
		h.ResolveTime = r.ResolveTime
	}
}

// maxAlike is how many digests of the same content are kept: a cluster that is connected reports on one within seconds.
const maxAlike = 8

// Succeed notes that a truth has the content of the one before it.
func (h *HubTruth) Succeed(before HubTruth) {
	h.Alike = append(slices.DeleteFunc(slices.Clone(before.Alike), func(d string) bool { return d == h.Digest || d == before.Digest }), before.Digest)
	if over := len(h.Alike) - maxAlike; over > 0 {
		h.Alike = h.Alike[over:]
	}
}

// reportedBy says whether a report is on what is handed out. One on the same content before a lever was pulled is, if
// nothing waited then: the service does not become another one for the seconds until the cluster knows of the lever.
func (h *HubTruth) reportedBy(r *Report) bool {
	settled := (r.Phase == PhaseHealthy || r.Phase == PhaseDegraded) && r.AppliedDigest == r.Digest
	return r.Digest == h.Digest || settled && slices.Contains(h.Alike, r.Digest)
}

// appliedBy says whether what is handed out is applied, by a report on it.
func (h *HubTruth) appliedBy(r *Report) bool {
	return r.AppliedDigest == h.Digest || h.reportedBy(r) && r.AppliedDigest == r.Digest
}

// Repeats says whether a truth hands out what the one before it did.
func (h *HubTruth) Repeats(before HubTruth) bool {
	return h.SameContent(before.Digest, before.Content) || slices.Contains(h.Alike, before.Digest)
}

// SameContent says whether what had these digests differs in what is said of tests at most.
func (h *HubTruth) SameContent(digest, content string) bool {
	return digest != "" && cmp.Or(h.Content, h.Digest) == cmp.Or(content, digest)
}

// LastProblem is the problem, or the earlier one while nobody knows whether that is over; nil: there is none.
func (h *HubTruth) LastProblem() *Problem {
	if h.Problem != nil {
		return h.Problem
	}
	return h.Earlier
}

// GoesOn says whether the problem is the last one of the truth before. With other words for a commit it is, unless
// something was handed out in between, or the service follows something else.
func (h *HubTruth) GoesOn(before HubTruth) bool {
	last := before.LastProblem()
	switch {
	case h.Problem == nil || last == nil:
		return false
	case h.Problem.Message == last.Message:
		return true
	}
	return SameWords(last.Message, h.Problem.Message) && h.Source == before.Source && h.Ref == before.Ref &&
		h.Revision.Commit == before.Revision.Commit && (h.Digest == before.Digest || h.Repeats(before))
}

// Moved says whether the service has gone to another cluster since an event told of the problem that it has.
func (h *HubTruth) Moved(before HubTruth) bool {
	return h.Problem != nil && before.ProblemCluster != "" && h.ProblemCluster != before.ProblemCluster
}

// IsOpen says whether the hub goes on with what it handed out, or with nothing, while the ref has another commit: a
// truth without a problem does not say then that the problem from before is over. Distributors that have just started,
// or have just heard of the commit, say so until they have asked for the content.
func (h *HubTruth) IsOpen(before HubTruth, head string) bool {
	behind := head != "" && !h.Follows() && h.Revision.Commit != head
	return behind && h.Source == before.Source && h.Ref == before.Ref &&
		(h.Digest == "" || h.Revision.Commit == before.Revision.Commit)
}

// Follows says whether the revision is that of the ref.
func (h *HubTruth) Follows() bool { return h.Digest != "" && h.Revision.Commit == "" }
