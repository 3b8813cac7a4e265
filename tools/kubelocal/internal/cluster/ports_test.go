package cluster

import (
	"net"
	"path/filepath"
	"testing"
)

func TestPortsAreKeptUnlessTaken(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ports.json")
	first, err := settlePorts(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if second, err := settlePorts(t.Context(), path); err != nil || second != first {
		t.Errorf("ports %+v, then %+v (%v)", first, second, err)
	}

	var config net.ListenConfig
	taken, err := config.Listen(t.Context(), "tcp", loopback(first.APIServer))
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	third, err := settlePorts(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if third.APIServer == first.APIServer || third.Kubelet != first.Kubelet {
		t.Errorf("with the API server's port taken: %+v, before: %+v", third, first)
	}
}
