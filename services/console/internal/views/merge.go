package views

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
)

// Bounds of the view of one cluster, and the sections that a push may have. The largest push that an agent makes has 24
// KiB (its TestLargestViewFitsTheHub); the rest is for rows of before that stay while an agent knows nothing of their
// sections.
const maxViewBytes, maxSections = 64 << 10, 32

// merge returns the view that a push makes of the current one, nil if the push changes nothing, and the answer to the
// agent. A view is a whole push. A push that can't be kept is refused by its answer: the pushes of other clusters in
// the same call are kept.
func merge(current, push *deliveryv1.PushViewRequest) (*deliveryv1.PushViewRequest, *deliveryv1.PushViewResponse) {
	switch {
	case push.GetTerm() < current.GetTerm():
		return nil, &deliveryv1.PushViewResponse{SupersededBy: current.GetTerm()}
	case push.GetTerm() == current.GetTerm() && push.GetSequence() <= current.GetSequence():
		return nil, &deliveryv1.PushViewResponse{} // the push came before
	case push.GetBase() != 0 && (push.GetTerm() != current.GetTerm() || push.GetBase() != current.GetSequence()):
		return nil, &deliveryv1.PushViewResponse{WholeWanted: true}
	}
	out := &deliveryv1.PushViewRequest{Term: push.GetTerm(), Sequence: push.GetSequence()}
	if push.GetBase() != 0 {
		out.Sections = slices.Clone(current.GetSections())
	}
	for _, s := range push.GetSections() {
		was := section(current, s.GetName())
		is := mergeSection(was, s, push.GetBase() == 0)
		if i := slices.IndexFunc(out.GetSections(), func(o *deliveryv1.ViewSection) bool { return o.GetName() == s.GetName() }); i >= 0 {
			out.Sections[i] = is
		} else {
			out.Sections = append(out.Sections, is)
		}
	}
	size := proto.Size(out)
	if size > maxViewBytes && push.GetBase() == 0 {
		withholdKept(out, push)
		size = proto.Size(out)
	}
	switch {
	case size <= maxViewBytes && len(out.GetSections()) <= maxSections:
		return out, &deliveryv1.PushViewResponse{}
	case push.GetBase() != 0: // figures and rows of an earlier agent may have stayed
		return nil, &deliveryv1.PushViewResponse{WholeWanted: true}
	}
	return nil, &deliveryv1.PushViewResponse{
		Refused: fmt.Sprintf("a view of %d bytes in %d sections: the most are %d bytes in %d sections", size,
			len(out.GetSections()), maxViewBytes, maxSections),
	}
}

// withholdKept withholds the rows of sections of which a push knows nothing: an agent that starts again and again, each
// time with others of its sections unread, would add up more than a view may have.
func withholdKept(view, push *deliveryv1.PushViewRequest) {
	for _, s := range view.GetSections() {
		if isUnread(section(push, s.GetName())) {
			s.Rows, s.Withheld = nil, s.GetWithheld()+int64(len(s.GetRows()))
		}
	}
}

// isUnread tells whether the agent knows nothing of a section yet.
func isUnread(s *deliveryv1.ViewSection) bool {
	unknown := s.GetState() == deliveryv1.SectionState_SECTION_STATE_READING || s.GetState() == deliveryv1.SectionState_SECTION_STATE_STALE
	return unknown && len(s.GetFigures()) == 0
}

// section is the one of a name, nil if there is none.
func section(view *deliveryv1.PushViewRequest, name string) *deliveryv1.ViewSection {
	for _, s := range view.GetSections() {
		if s.GetName() == name {
			return s
		}
	}
	return nil
}

// mergeSection returns a section with a change, as agents make it. The result shares rows with both.
func mergeSection(was, change *deliveryv1.ViewSection, whole bool) *deliveryv1.ViewSection {
	out := &deliveryv1.ViewSection{
		Name: change.GetName(), State: change.GetState(), Reason: change.GetReason(), Figures: change.GetFigures(),
		Withheld: change.GetWithheld(), Sample: change.GetSample(),
	}
	switch {
	case was != nil && isUnread(change): // the agent knows nothing: what was known last stays
		out.Figures, out.Rows, out.Withheld, out.Sample = was.GetFigures(), was.GetRows(), was.GetWithheld(), was.GetSample()
		return out
	case whole || change.GetAllRows():
		out.Rows = change.GetRows()
		return out
	}
	gone := map[string]bool{}
	for _, key := range change.GetRemoved() {
		gone[key] = true
	}
	set := map[string]*deliveryv1.ViewRow{}
	for _, r := range change.GetRows() {
		set[r.GetKey()] = r
	}
	for _, r := range was.GetRows() {
		switch now := set[r.GetKey()]; {
		case now != nil:
			out.Rows = append(out.Rows, now)
			delete(set, r.GetKey())
		case !gone[r.GetKey()]:
			out.Rows = append(out.Rows, r)
		}
	}
	for _, r := range change.GetRows() {
		if set[r.GetKey()] != nil {
			out.Rows = append(out.Rows, r)
			delete(set, r.GetKey())
		}
	}
	return out
}
