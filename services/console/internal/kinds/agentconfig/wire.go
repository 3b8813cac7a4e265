package agentconfig

import (
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/descriptor"
	"fairlead.dev/services/console/internal/resource"
)

func decode(m *consolev1.AgentConfig) (AgentConfig, error) {
	spec := m.GetSpec()
	out := AgentConfig{Meta: descriptor.Meta(m.GetMetadata()), Spec: Spec{Description: spec.GetDescription()}}
	clusters := spec.GetClusters()
	if clusters.GetWhere() != "" {
		return out, refusal.New(refusal.Invalid, "spec.clusters.where: not known here: use names, labels or all")
	}
	out.Spec.Clusters = &resource.Selector{Names: clusters.GetNames(), Labels: clusters.GetLabels(), All: clusters.GetAll()}
	if proto.Size(spec.GetSettings()) == 0 {
		return out, refusal.New(refusal.Invalid, "spec.settings: says nothing: name a setting, such as concurrency: 2")
	}
	var err error
	if out.Spec.Settings, err = protojson.Marshal(spec.GetSettings()); err != nil {
		return out, fmt.Errorf("encode settings: %w", err)
	}
	return out, nil
}

func encode(c AgentConfig) *consolev1.AgentConfig {
	out := &consolev1.AgentConfig{Metadata: descriptor.Metadata(c.Meta), Spec: &consolev1.AgentConfigSpec{Description: c.Spec.Description}}
	if s := c.Spec.Clusters; s != nil {
		out.Spec.Clusters = &consolev1.ClusterSelector{Names: s.Names, Labels: s.Labels, All: s.All}
	}
	out.Spec.Settings, _ = settingsOf(c.Spec) // the check of the write has read them
	return out
}

func settingsOf(s Spec) (*deliveryv1.AgentSettings, error) {
	out := &deliveryv1.AgentSettings{}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(s.Settings, out); err != nil {
		return nil, fmt.Errorf("decode settings: %w", err)
	}
	return out, nil
}

// maxLayers bounds the layers that are kept of what an agent says, in bytes.
const maxLayers = 16 << 10

// Said is what an agent says of its configuration, as it is stored; nil: nothing.
func Said(s *deliveryv1.AgentConfigState) json.RawMessage {
	if s == nil {
		return nil
	}
	s = proto.CloneOf(s)
	if proto.Size(&deliveryv1.AgentConfigState{Layers: s.GetLayers()}) > maxLayers {
		s.Layers = nil
	}
	text, err := protojson.Marshal(s)
	if err != nil {
		return nil // text that is no UTF-8, which no request brings
	}
	return text
}

func heard(text json.RawMessage) *deliveryv1.AgentConfigState {
	out := &deliveryv1.AgentConfigState{}
	if len(text) > 0 {
		_ = (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(text, out) // Said wrote it
	}
	return out
}
