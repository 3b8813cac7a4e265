package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"time"
)

// Ports are taken from below the range that Linux hands to outgoing connections. Inside that range
// a client that dials a restarting API server can be given the server's own port and occupy it.
const (
	lowestPort  = 20000
	highestPort = 29999
)

// ports are the listeners of one cluster, on loopback but for the API server with --bind. The ports are chosen once and kept, so
// that a kubeconfig stays good over restarts.
type ports struct {
	APIServer int `json:"apiserver"`
	Kubelet   int `json:"kubelet"` // one for all nodes
	Kwok      int `json:"kwok"`    // which the kubelet asks for logs
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// settlePorts reads the ports of an earlier run, chooses those that are missing or taken, and
// writes them down. The ports are reserved until ctx ends.
func settlePorts(ctx context.Context, path string) (ports, error) {
	var p ports
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return p, fmt.Errorf("read the ports: %w", err)
	}
	if err == nil {
		if err := json.Unmarshal(data, &p); err != nil {
			return p, fmt.Errorf("decode %s (remove it to choose new ports): %w", path, err)
		}
	}
	for _, port := range []*int{&p.APIServer, &p.Kubelet, &p.Kwok} {
		if *port != 0 && comesFree(ctx, *port) {
			continue
		}
		if *port, err = choosePort(ctx); err != nil {
			return p, err
		}
	}
	data, err = json.Marshal(p)
	if err != nil {
		return p, fmt.Errorf("encode the ports: %w", err)
	}
	return p, writeFile(path, append(data, '\n'))
}

// comesFree waits a moment: the components of a killed run may be on their way out.
func comesFree(ctx context.Context, port int) bool {
	limited, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return await(limited, "the port", func(context.Context) error { return reserve(ctx, port) }) == nil
}

func choosePort(ctx context.Context) (int, error) {
	const tries = 200
	var err error
	for range tries {
		port := lowestPort + rand.IntN(highestPort-lowestPort+1) //nolint:gosec // not a secret
		if err = reserve(ctx, port); err == nil {
			return port, nil
		}
	}
	return 0, fmt.Errorf("find a free port: %w", err)
}

// reserve keeps a port that is free from other clusters until ctx ends. Seconds pass before a component listens, in
// which a cluster that starts beside this one would find the port free: UDP, which nothing here speaks, is the sign.
func reserve(ctx context.Context, port int) error {
	var config net.ListenConfig
	sign, err := config.ListenPacket(ctx, "udp", loopback(port))
	if err != nil {
		return err
	}
	listener, err := config.Listen(ctx, "tcp", loopback(port))
	if err != nil {
		return errors.Join(err, sign.Close())
	}
	context.AfterFunc(ctx, func() { sign.Close() })
	return listener.Close()
}
