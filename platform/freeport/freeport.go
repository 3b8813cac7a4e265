// Package freeport finds addresses for servers of tests and trials, which must be known before they listen
// and must still be free when they are started again.
package freeport

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

const (
	// first is above 10080, the last port that browsers refuse to open.
	first = 10_081
	// usualEphemeral is where most systems begin to take ports of outgoing connections from, or further up.
	usualEphemeral = 32_768
	tries          = 10_000
)

var (
	mu    sync.Mutex       //nolint:gochecknoglobals // guards given
	given = map[int]bool{} //nolint:gochecknoglobals // by this process, so that no port comes twice
)

// Addresses returns loopback addresses that nobody listens on. Their ports are not among those that the
// kernel gives to outgoing connections: one of them that was free a moment ago may be taken when the server
// starts, or while it is down.
func Addresses(n int) ([]string, error) { return On("127.0.0.1", n) }

// On is Addresses at another address of this machine; an address of another one is an error.
func On(host string, n int) ([]string, error) {
	mu.Lock()
	defer mu.Unlock()
	last := ephemeral()
	addrs := make([]string, 0, n)
	for range tries {
		if len(addrs) == n {
			return addrs, nil
		}
		port := first + rand.IntN(last-first) //nolint:gosec // a choice
		addr := net.JoinHostPort(host, strconv.Itoa(port))
		if given[port] {
			continue
		}
		free, err := tryListen(addr)
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		if !free {
			continue
		}
		given[port] = true
		addrs = append(addrs, addr)
	}
	return nil, errors.New("no port is free on this machine: end what listens on so many of them")
}

// tryListen tells whether nobody listens there; an error: nobody can.
func tryListen(addr string) (free bool, err error) {
	l, err := net.Listen("tcp", addr) //nolint:noctx // it is closed at once
	if errors.Is(err, syscall.EADDRINUSE) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, l.Close()
}

// ephemeral is the first port of outgoing connections. A system that leaves too few below it is taken for a usual one.
func ephemeral() int {
	b, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return usualEphemeral // no Linux
	}
	var from int
	if _, err := fmt.Sscan(strings.TrimSpace(string(b)), &from); err != nil || from < first+1000 {
		return usualEphemeral
	}
	return from
}
