package nodes_test

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"fairlead.dev/e2e/process"
)

const (
	networkPage = "../../docs/operate/network.md"
	// lookEvery is shorter than a closed connection stays in a kernel's table (a minute).
	lookEvery = 10 * time.Second
	// firstEphemeral is the first port that the kernel gives to a caller (net.ipv4.ip_local_port_range).
	firstEphemeral = 32768
)

// connection is one that a pod dials: components of the hub, "agent", or what the lab has besides.
type connection struct {
	from, to string
	port     uint16
}

func (c connection) String() string { return fmt.Sprintf("%s -> %s:%d", c.from, c.to, c.port) }

// socket is a line of /proc/net/tcp.
type socket struct{ local, remote netip.AddrPort }

// tables prints the sockets of each network namespace on a node.
const tables = `seen=; for p in /proc/[0-9]*; do n=$(readlink $p/ns/net) || continue; case "$seen" in *"$n"*) continue;; esac; seen="$seen $n"; cat $p/net/tcp $p/net/tcp6; done; true`

// watchConnections looks at the sockets of all pods again and again, until it is asked what it has seen.
func (w *world) watchConnections(t *testing.T) func() map[connection]bool {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	seen := map[connection]bool{}
	owners := map[netip.Addr]string{}
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		for {
			w.lookAtConnections(ctx, owners, seen)
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
	t.Cleanup(func() { cancel(); running.Wait() })
	return func() map[connection]bool {
		cancel()
		running.Wait()
		return seen
	}
}

func (w *world) lookAtConnections(ctx context.Context, owners map[netip.Addr]string, seen map[connection]bool) {
	if err := w.findOwners(ctx, owners); err != nil {
		return // the next look may succeed; a pod that is never found is reported by its address
	}
	for _, node := range []string{"node-1", "node-2"} {
		text, err := w.inNode(ctx, node, "sh", "-c", tables)
		if err != nil {
			continue
		}
		for _, s := range sockets(text) {
			if from, known := owners[s.local.Addr()]; known && s.local.Port() >= firstEphemeral &&
				s.remote.Port() != 0 {
				to, known := owners[s.remote.Addr()]
				if !known {
					to = s.remote.Addr().String()
				}
				seen[connection{from, to, s.remote.Port()}] = true
			} else if from, known := owners[s.remote.Addr()]; known && s.remote.Port() >= firstEphemeral {
				// The balancer's own port is not the one that its callers dialed.
				if to := owners[s.local.Addr()]; to != "" && to != "balancer" {
					seen[connection{from, to, s.local.Port()}] = true
				}
			}
		}
	}
}

// findOwners notes the addresses of pods and Services; those of pods that are gone stay.
func (w *world) findOwners(ctx context.Context, owners map[netip.Addr]string) error {
	text, err := w.tryKubectl(ctx, "", "get", "pods,services", "--all-namespaces", "--output=json")
	if err != nil {
		return err
	}
	var list struct {
		Items []struct {
			Metadata struct {
				Name, Namespace string
				Labels          map[string]string
			}
			Spec struct {
				ClusterIP   string
				HostNetwork bool
			}
			Status struct{ PodIP string }
		}
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return err
	}
	for _, item := range list.Items {
		name := item.Metadata.Labels["app.kubernetes.io/component"]
		if name == "" {
			name = item.Metadata.Name
			if app := item.Metadata.Labels["app"]; app != "" {
				name = app
			}
		}
		if item.Metadata.Namespace == "hub" {
			name = "balancer"
		}
		for _, text := range []string{item.Spec.ClusterIP, item.Status.PodIP} {
			if address, err := netip.ParseAddr(text); err == nil {
				owners[address] = name
			}
		}
	}
	return nil
}

func (w *world) inNode(ctx context.Context, node string, command ...string) (string, error) {
	return process.Run(ctx, nil, "", w.program, append([]string{"exec", "--dir", w.lab, "--node", node, "--"},
		command...)...)
}

// sockets reads /proc/net/tcp and tcp6: addresses in words of four bytes, each as the machine has it.
func sockets(text string) []socket {
	var all []socket
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 4 || !strings.HasSuffix(fields[0], ":") {
			continue
		}
		local, err := kernelAddress(fields[1])
		if err != nil {
			continue
		}
		if remote, err := kernelAddress(fields[2]); err == nil {
			all = append(all, socket{local, remote})
		}
	}
	return all
}

func kernelAddress(text string) (netip.AddrPort, error) {
	host, port, _ := strings.Cut(text, ":")
	raw, err := hex.DecodeString(host)
	if err != nil {
		return netip.AddrPort{}, err
	}
	for i := 0; i+4 <= len(raw); i += 4 {
		binary.NativeEndian.PutUint32(raw[i:], binary.BigEndian.Uint32(raw[i:]))
	}
	address, ok := netip.AddrFromSlice(raw)
	number, err := strconv.ParseUint(port, 16, 16)
	if !ok || err != nil {
		return netip.AddrPort{}, fmt.Errorf("%s is no address", text)
	}
	return netip.AddrPortFrom(address.Unmap(), uint16(number)), nil
}

// compareConnections holds what was seen against the table of docs/operate/network.md.
func (w *world) compareConnections(t *testing.T, seen map[connection]bool) {
	t.Helper()
	// The balancer stands for the names of the hub; databases, Git server and proxy are anywhere.
	aliases := map[string]string{
		"kubernetes": "API server", "redis": "Redis", "postgres": "PostgreSQL",
		gitHost: "elsewhere", "balancer": "hub", "kube-dns": "DNS",
	}
	parts := []string{"console", "gitcache", "distributor", "tunnel", "agent", "test", "backup", "agent-test"}
	table := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\| ([a-z -]+) \| ([A-Za-z, -]+) \| ([0-9, ]+|any) \|`).FindAllStringSubmatch(readPage(t, networkPage), -1) {
		for to := range strings.SplitSeq(row[2], ", ") {
			for port := range strings.SplitSeq(row[3], ", ") {
				table[row[1]+" -> "+to+":"+port] = true
			}
		}
	}
	if len(table) == 0 {
		t.Fatal("the page has no table of connections")
	}
	used := map[string]bool{}
	for c := range seen {
		if !slices.Contains(parts, c.from) {
			continue
		}
		if to, known := aliases[c.to]; known {
			c.to = to
		}
		exact, anyPort := c.String(), c.from+" -> "+c.to+":any"
		if c.to == "API server" {
			exact = c.from + " -> API server:443"
		}
		switch {
		case table[exact]:
			used[exact] = true
		case table[anyPort]:
			used[anyPort] = true
		default:
			t.Errorf("the table of %s lacks %s", networkPage, c)
		}
	}
	for _, row := range slices.Sorted(maps.Keys(table)) {
		t.Logf("connection %s: seen: %t", row, used[row])
	}
}
