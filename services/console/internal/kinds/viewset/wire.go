package viewset

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/refusal"
	platform "fairlead.dev/platform/viewset"
	"fairlead.dev/services/console/internal/descriptor"
	"fairlead.dev/services/console/internal/resource"
	"fairlead.dev/services/console/internal/store"
)

// Kind describes the kind.
func Kind() descriptor.Of[ViewSet, *consolev1.ViewSet] {
	d := descriptor.Plainly(kindType(), decode, encode)
	d.Policy = policy()
	d.Follow = func(c store.Change) (*consolev1.ViewSet, error) {
		in, err := kindType().Decode(c.Resource)
		return encode(in), err
	}
	return d
}

func decode(m *consolev1.ViewSet) (ViewSet, error) {
	spec := m.GetSpec()
	out := ViewSet{Meta: descriptor.Meta(m.GetMetadata()), Spec: Spec{Description: spec.GetDescription()}}
	clusters := spec.GetClusters()
	if clusters.GetWhere() != "" {
		return out, refusal.New(refusal.Invalid, "spec.clusters.where: not known here: use names, labels or all")
	}
	out.Spec.Clusters = &resource.Selector{Names: clusters.GetNames(), Labels: clusters.GetLabels(), All: clusters.GetAll()}
	var err error
	if out.Spec.Content, err = protojson.Marshal(platform.Content(spec)); err != nil {
		return out, fmt.Errorf("encode the content of a ViewSet: %w", err)
	}
	return out, nil
}

func encode(s ViewSet) *consolev1.ViewSet {
	c, _ := contentOf(s.Spec) // the check of the write has read it
	out := &consolev1.ViewSet{Metadata: descriptor.Metadata(s.Meta), Spec: &consolev1.ViewSetSpec{
		Description: s.Spec.Description, Of: c.GetOf(), Counts: c.GetCounts(), Conditions: c.GetConditions(), Columns: c.GetColumns(), Rows: c.GetRows(),
	}}
	if of := s.Spec.Clusters; of != nil {
		out.Spec.Clusters = &consolev1.ClusterSelector{Names: of.Names, Labels: of.Labels, All: of.All}
	}
	return out
}

func contentOf(s Spec) (*deliveryv1.ViewSetContent, error) {
	out := &deliveryv1.ViewSetContent{}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(s.Content, out); err != nil {
		return nil, fmt.Errorf("decode the content of a ViewSet: %w", err)
	}
	return out, nil
}
