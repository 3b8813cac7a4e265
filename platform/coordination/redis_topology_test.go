package coordination_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairlead.dev/platform/await"
	"fairlead.dev/platform/coordination"
	"fairlead.dev/platform/coordination/redistest"
	"fairlead.dev/platform/freeport"
)

// freePort returns a TCP port that was free a moment ago: clients of Sentinel and Cluster are
// told addresses, and a unix socket is none.
func freePort(t *testing.T) string {
	t.Helper()
	addrs, err := freeport.Addresses(1)
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(addrs[0])
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// everyVerb uses each verb once, with keys on several nodes of a Cluster.
func everyVerb(t *testing.T, url string) {
	t.Helper()
	a, b := openRedis(t, url), openRedis(t, url)
	for i := range 10 {
		key := fmt.Sprint("k", i)
		var l *coordination.Lease
		await.NoError(t, "Redis is reached", func() (err error) { // until Sentinel and Cluster have settled
			l, err = a.Acquire(t.Context(), key, "one", time.Hour)
			return err
		})
		if _, err := b.Acquire(t.Context(), key, "two", time.Hour); !errors.Is(err, coordination.ErrHeld) {
			t.Errorf("second acquire: %v", err)
		}
		if err := l.Renew(t.Context()); err != nil {
			t.Error(err)
		}
		if err := l.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if err := a.Join(t.Context(), key, coordination.Member{ID: "one"}, time.Hour); err != nil {
			t.Error(err)
		}
		if m, err := b.Members(t.Context(), key); len(m) != 1 || err != nil {
			t.Errorf("members: %v, %v", m, err)
		}
		if err := b.Leave(t.Context(), key, "one"); err != nil {
			t.Error(err)
		}
	}
	messages, err := a.Subscribe(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	awaitMessage(t, b, messages)
}

func TestRedisOverTCP(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	redistest.Start(t, "--port", port, "--bind", "127.0.0.1")
	everyVerb(t, "redis://127.0.0.1:"+port+"/3")
}

func TestRedisSentinel(t *testing.T) {
	t.Parallel()
	port, sentinelPort := freePort(t), freePort(t)
	redistest.Start(t, "--port", port, "--bind", "127.0.0.1")
	conf := filepath.Join(t.TempDir(), "sentinel.conf")
	if err := os.WriteFile(conf, []byte("sentinel monitor hub 127.0.0.1 "+port+" 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	redistest.Start(t, conf, "--sentinel", "--port", sentinelPort, "--bind", "127.0.0.1")
	everyVerb(t, "redis+sentinel://127.0.0.1:"+sentinelPort+",127.0.0.1:"+sentinelPort+"/0?master_name=hub")
}

func TestRedisCluster(t *testing.T) {
	t.Parallel()
	const nodes = 2
	var hosts []string
	var servers []*redistest.Server
	for i := range nodes {
		port, busPort := freePort(t), freePort(t)
		s := redistest.Start(t, "--port", port, "--bind", "127.0.0.1", "--cluster-enabled", "yes", "--cluster-port",
			busPort)
		const slots = 16384
		s.Do("CLUSTER", "ADDSLOTSRANGE", i*slots/nodes, (i+1)*slots/nodes-1)
		s.Do("CLUSTER", "SET-CONFIG-EPOCH", i+1)
		if i > 0 {
			servers[0].Do("CLUSTER", "MEET", "127.0.0.1", port, busPort)
		}
		servers, hosts = append(servers, s), append(hosts, "127.0.0.1:"+port)
	}
	await.NoError(t, "Redis is reached", func() error {
		for _, s := range servers {
			if info := s.Do("CLUSTER", "INFO"); !strings.Contains(info, "cluster_state:ok") ||
				!strings.Contains(info, "cluster_known_nodes:2") {
				return errors.New(info)
			}
		}
		return nil
	})
	everyVerb(t, "redis+cluster://"+strings.Join(hosts, ","))
}
