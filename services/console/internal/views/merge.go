package views

import (
	"slices"

	"google.golang.org/protobuf/proto"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/services/console/internal/catalog"
)

// maxViewBytes bounds the view of one cluster: four times what agents keep to.
const maxViewBytes = 64 << 10

// merge returns the view that a push makes of the current one; nil: it changes nothing. A view is a whole push.
func merge(current, push *deliveryv1.PushViewRequest) (*deliveryv1.PushViewRequest, *deliveryv1.PushViewResponse, error) {
	switch {
	case push.GetTerm() < current.GetTerm():
		return nil, &deliveryv1.PushViewResponse{SupersededBy: current.GetTerm()}, nil
	case push.GetTerm() == current.GetTerm() && push.GetSequence() <= current.GetSequence():
		return nil, &deliveryv1.PushViewResponse{}, nil // the push came before
	case push.GetBase() != 0 && (push.GetTerm() != current.GetTerm() || push.GetBase() != current.GetSequence()):
		return nil, &deliveryv1.PushViewResponse{WholeWanted: true}, nil
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
	if size := proto.Size(out); size > maxViewBytes || len(out.GetSections()) > 32 {
		return nil, nil, catalog.Refuse(catalog.Invalid, "a view of %d bytes in %d sections: the most are %d bytes in 32 sections", size, len(out.GetSections()), maxViewBytes)
	}
	return out, &deliveryv1.PushViewResponse{}, nil
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
		Name: change.GetName(), State: change.GetState(), Reason: change.GetReason(), Figures: change.GetFigures(), Withheld: change.GetWithheld(), Sample: change.GetSample(),
	}
	unknown := change.GetState() == deliveryv1.SectionState_SECTION_STATE_READING || change.GetState() == deliveryv1.SectionState_SECTION_STATE_STALE
	switch {
	case was != nil && unknown && len(change.GetFigures()) == 0: // the agent knows nothing: what was known last stays
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
