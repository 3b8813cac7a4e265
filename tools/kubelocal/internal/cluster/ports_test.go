package cluster

import (
	"context"
	"net"
	"path/filepath"
	"testing"
)

func TestPortsAreKeptUnlessTaken(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ports.json")
	settle := func() ports {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel() // the cluster ends
		p, err := settlePorts(ctx, path)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	first := settle()
	if second := settle(); second != first {
		t.Errorf("ports %+v, then %+v", first, second)
	}

	var config net.ListenConfig
	taken, err := config.Listen(t.Context(), "tcp", loopback(first.APIServer))
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	third := settle()
	if third.APIServer == first.APIServer || third.Kubelet != first.Kubelet {
		t.Errorf("with the API server's port taken: %+v, before: %+v", third, first)
	}
}

// Both begin at once: the components of the first do not listen yet when the second chooses.
func TestPortsAreReservedBeforeTheyAreListenedOn(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ports.json")
	first, err := settlePorts(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	second, err := settlePorts(t.Context(), path) // which wants the same
	if err != nil {
		t.Fatal(err)
	}
	if first.APIServer == second.APIServer || first.Kubelet == second.Kubelet || first.Kwok == second.Kwok {
		t.Errorf("two clusters have ports in common: %+v and %+v", first, second)
	}
}
