package up

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"

	"fairlead.dev/platform/freeport"
)

// ports is where everything listens.
type ports struct {
	Console     int `json:"console"`
	Gitcache    int `json:"gitcache"`
	Distributor int `json:"distributor"`
	Tunnel      int `json:"tunnel"`
	Front       int `json:"front"`
	Git         int `json:"git"`
}

// gitOffset keeps the Git server away from the hub's ports and from what they may grow to.
const gitOffset = 80

func fixedPorts(base int) ports {
	return ports{Console: base, Gitcache: base + 1, Distributor: base + 2, Tunnel: base + 3, Front: base + 4, Git: base + gitOffset}
}

// choosePorts takes the fixed ports above base or, with base 0, those of the last run if they are
// free, and else free ones: agents and clones know the hub by its ports.
func choosePorts(ctx context.Context, base int, host string, last ports) (ports, error) {
	if base < 0 || base > 65535-gitOffset {
		return ports{}, fmt.Errorf("--port-base %d: must be 0 (any free ports) or up to %d", base, 65535-gitOffset)
	}
	if base > 0 {
		p := fixedPorts(base)
		return p, p.checkFree(ctx, host)
	}
	// A folder of a version without a front keeps the ports that agents and clones know.
	if last != (ports{}) && last.Front == 0 {
		other, err := freePorts(host)
		if err != nil {
			return ports{}, err
		}
		last.Front = other.Front
	}
	if last != (ports{}) && last.checkFree(ctx, host) == nil {
		return last, nil
	}
	return freePorts(host)
}

// checkFree tells which ports are taken before anything is started.
func (p ports) checkFree(ctx context.Context, host string) error {
	var taken []string
	for _, l := range []struct {
		name, host string
		port       int
	}{
		{"console", host, p.Console},
		{"gitcache", host, p.Gitcache},
		{"distributor", host, p.Distributor},
		{"tunnel", host, p.Tunnel},
		{"front", host, p.Front},
		{"Git server", loopback, p.Git},
	} {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", hostPort(l.host, l.port))
		if errors.Is(err, syscall.EADDRINUSE) {
			taken = append(taken, fmt.Sprintf("%d (%s)", l.port, l.name))
			continue
		}
		if err == nil {
			err = listener.Close()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
	}
	if len(taken) > 0 {
		return fmt.Errorf("another program uses port %s: end it, or give another --port-base (0 for any free ports)",
			strings.Join(taken, ", "))
	}
	return nil
}

// freePorts chooses ports that stay free until everything listens on them, and while it is down.
func freePorts(host string) (p ports, err error) {
	for _, wanted := range []struct {
		host  string
		ports []*int
	}{
		{host, []*int{&p.Console, &p.Gitcache, &p.Distributor, &p.Tunnel, &p.Front}},
		{loopback, []*int{&p.Git}},
	} {
		addresses, err := freeport.On(wanted.host, len(wanted.ports))
		if err != nil {
			return ports{}, err
		}
		for i, a := range addresses {
			_, port, err := net.SplitHostPort(a)
			if err == nil {
				*wanted.ports[i], err = strconv.Atoi(port)
			}
			if err != nil {
				return ports{}, fmt.Errorf("find a free port: %w", err)
			}
		}
	}
	return p, nil
}

func hostPort(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }
