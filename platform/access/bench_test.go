package access_test

import (
	"fmt"
	"testing"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/access"
)

// BenchmarkHiddenRow asks what a list asks of each row that its reader may not see.
func BenchmarkHiddenRow(b *testing.B) {
	rules := &access.Rules{}
	web := &consolev1.GrantClusters{Labels: map[string]string{"team": "web"}}
	for i := range 5 {
		rules.Grants = append(rules.Grants, grant(fmt.Sprintf("team-%d", i), "viewer", web, nil, "group:web"))
	}
	who := user("mary@example.com", "web")
	at := access.Target{
		Kind: access.Service, Name: "shop", Project: "shop", Cluster: "edge-1",
		ClusterLabels: map[string]string{"team": "data"},
	}
	b.ReportAllocs()
	for b.Loop() {
		if rules.Allows(who, access.View, at) {
			b.Fatal("allowed")
		}
	}
}
