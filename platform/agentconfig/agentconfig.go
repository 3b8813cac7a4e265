// Package agentconfig says which AgentConfigs hold at a cluster, and what they come to together: of each setting the
// narrowest counts, so that no order is needed, and no layer gives back what another one takes.
package agentconfig

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
)

// Chooses tells whether a configuration is for a cluster.
func Chooses(c *consolev1.AgentConfig, cluster string, labels map[string]string) bool {
	s := c.GetSpec().GetClusters()
	if s.GetAll() || slices.Contains(s.GetNames(), cluster) {
		return true
	}
	for key, value := range s.GetLabels() {
		if is, ok := labels[key]; !ok || is != value {
			return false
		}
	}
	return len(s.GetLabels()) > 0
}

// For is what the agent of a cluster is to be configured with: a layer for each configuration that chooses it, in the
// order of their names.
func For(all []*consolev1.AgentConfig, cluster string, labels map[string]string) *deliveryv1.AgentConfigDelivery {
	out := &deliveryv1.AgentConfigDelivery{}
	for _, c := range all {
		if Chooses(c, cluster, labels) {
			out.Layers = append(out.Layers, &deliveryv1.AgentLayer{Name: c.GetMetadata().GetName(), Settings: c.GetSpec().GetSettings()})
		}
	}
	slices.SortFunc(out.GetLayers(), func(a, b *deliveryv1.AgentLayer) int { return cmp.Compare(a.GetName(), b.GetName()) })
	out.Digest = Digest(out.GetLayers())
	return out
}

// Digest names layers by their content; "" for none. Equal layers have equal digests.
func Digest(layers []*deliveryv1.AgentLayer) string {
	if len(layers) == 0 {
		return ""
	}
	sum := sha256.New()
	for _, layer := range layers {
		text, err := proto.MarshalOptions{Deterministic: true}.Marshal(layer)
		if err != nil {
			text = []byte(layer.GetName()) // of text that is no UTF-8, which no console takes
		}
		fmt.Fprintf(sum, "%d:%s", len(text), text)
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil))
}
