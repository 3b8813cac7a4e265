package rpc

import (
	"testing"
	"time"
)

func TestClaimsOfClustersThatLeftAreForgotten(t *testing.T) {
	t.Parallel()
	d := &Delivery{claims: claims{of: map[string]claim{}}}
	for _, cluster := range []string{"left", "stays"} {
		d.claims.void(cluster, 7, true, time.Now(), time.Now)
	}
	d.Forget(func(cluster string) bool { return cluster == "stays" })
	if _, stays := d.claims.of["stays"]; !stays || len(d.claims.of) != 1 {
		t.Errorf("kept %v", d.claims.of)
	}
}
