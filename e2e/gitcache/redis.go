package gitcache

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"fairlead.dev/e2e/process"
	"fairlead.dev/platform/retry"
)

// stopGrace is how long a program may take to end by itself: more than any drain, on a machine that may be busy.
const stopGrace = 2 * time.Minute

// Redis is what gitcaches coordinate over.
type Redis interface {
	// URL is what --redis-url takes.
	URL() string
	// Restart kills the server that takes writes, and starts it again, empty.
	Restart(ctx context.Context) error
	// Flush forgets everything.
	Flush(ctx context.Context) error
	Stop() error
}

// server is a redis-server that keeps nothing on disk.
type server struct {
	*process.Process
	addr   string
	client *redis.Client
}

func newServer(dir, name, addr string, config ...string) (*server, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	home := filepath.Join(dir, name)
	if err := os.MkdirAll(home, 0o700); err != nil {
		return nil, err
	}
	lines := append([]string{"bind " + host, "port " + port, "dir " + home}, config...)
	file := filepath.Join(home, "redis.conf")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		return nil, err
	}
	args := []string{file}
	if strings.HasPrefix(name, "sentinel") {
		args = append(args, "--sentinel")
	}
	return &server{
		Process: process.New(dir, name, "redis-server", args...), addr: addr,
		client: redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, DisableIdentity: true}),
	}, nil
}

// start returns when the server answers.
func (s *server) start(ctx context.Context) error {
	if err := s.Start(); err != nil {
		return err
	}
	return process.Await(ctx, s.Name+" answers", func(ctx context.Context) error { return s.client.Ping(ctx).Err() })
}

func (s *server) stop() error {
	return errors.Join(s.client.Close(), s.Stop(stopGrace))
}

func (s *server) do(ctx context.Context, args ...any) (string, error) {
	reply, err := s.client.Do(ctx, args...).Result()
	if err != nil {
		return "", fmt.Errorf("%s: %v: %w", s.Name, args[0], err)
	}
	return fmt.Sprint(reply), nil
}

// Alone is one redis-server.
type Alone struct{ server *server }

// StartAlone starts a redis-server.
func StartAlone(ctx context.Context, dir string) (*Alone, error) {
	addrs, err := process.FreeAddresses(1)
	if err != nil {
		return nil, err
	}
	s, err := newServer(dir, "redis", addrs[0], `save ""`, "appendonly no")
	if err != nil {
		return nil, err
	}
	return &Alone{s}, s.start(ctx)
}

// URL implements Redis.
func (a *Alone) URL() string { return "redis://" + a.server.addr + "/0" }

// Kill ends the server; Restart brings it back.
func (a *Alone) Kill() error { return a.server.Kill() }

// Restart implements Redis.
func (a *Alone) Restart(ctx context.Context) error {
	if err := a.server.Kill(); err != nil {
		return err
	}
	return a.server.start(ctx)
}

// Flush implements Redis.
func (a *Alone) Flush(ctx context.Context) error {
	_, err := a.server.do(ctx, "FLUSHALL")
	return err
}

// Stop implements Redis.
func (a *Alone) Stop() error { return a.server.stop() }

// Sentinels are a master, a replica and three sentinels.
type Sentinels struct {
	servers   []*server
	sentinels []*server
}

// masterName is what sentinels call the master.
const masterName = "hub"

// StartSentinels starts all of them.
func StartSentinels(ctx context.Context, dir string) (*Sentinels, error) {
	const sentinels = 3
	addrs, err := process.FreeAddresses(2 + sentinels)
	if err != nil {
		return nil, err
	}
	master := strings.Replace(addrs[0], ":", " ", 1)
	s := &Sentinels{}
	for i, addr := range addrs {
		name, config := fmt.Sprintf("redis-%d", i), []string{
			`save ""`, "appendonly no", "repl-diskless-sync-delay 0",
			// The user is what LoseWrites takes away from the replica.
			"user replica on >secret +psync +replconf +ping", "masteruser replica", "masterauth secret",
		}
		if i == 1 {
			config = append(config, "replicaof "+master)
		}
		if i > 1 {
			name, config = fmt.Sprintf("sentinel-%d", i-1), []string{
				"sentinel monitor " + masterName + " " + master + " 2", "sentinel down-after-milliseconds " + masterName + " 1000",
				"sentinel failover-timeout " + masterName + " 5000",
			}
		}
		node, err := newServer(dir, name, addr, config...)
		if err == nil {
			err = node.start(ctx)
		}
		if err != nil {
			return s, errors.Join(err, s.Stop())
		}
		if i > 1 {
			s.sentinels = append(s.sentinels, node)
		} else {
			s.servers = append(s.servers, node)
		}
	}
	return s, s.settled(ctx)
}

// URL implements Redis.
func (s *Sentinels) URL() string {
	var hosts []string
	for _, n := range s.sentinels {
		hosts = append(hosts, n.addr)
	}
	return "redis+sentinel://" + strings.Join(hosts, ",") + "/0?master_name=" + masterName
}

// Stop implements Redis.
func (s *Sentinels) Stop() error {
	var errs []error
	for _, n := range append(s.sentinels, s.servers...) {
		errs = append(errs, n.stop())
	}
	return errors.Join(errs...)
}

// Restart implements Redis. The sentinels may or may not take it for a failure.
func (s *Sentinels) Restart(ctx context.Context) error {
	master, _, err := s.roles(ctx)
	if err != nil {
		return err
	}
	if err := master.Kill(); err != nil {
		return err
	}
	if err := master.start(ctx); err != nil {
		return err
	}
	return s.settled(ctx)
}

// Flush implements Redis.
func (s *Sentinels) Flush(ctx context.Context) error {
	master, _, err := s.roles(ctx)
	if err != nil {
		return err
	}
	_, err = master.do(ctx, "FLUSHALL")
	return err
}

// LoseWrites makes a failover that loses what was written during the time: replication is cut, then the
// master dies.
func (s *Sentinels) LoseWrites(ctx context.Context, during time.Duration) error {
	master, replica, err := s.roles(ctx)
	if err != nil {
		return err
	}
	for _, command := range [][]any{{"ACL", "SETUSER", "replica", "off"}, {"CLIENT", "KILL", "TYPE", "replica"}} {
		if _, err := master.do(ctx, command...); err != nil {
			return err
		}
	}
	retry.Sleep(ctx, during)
	info, err := replica.do(ctx, "INFO", "replication")
	if err == nil && strings.Contains(info, "role:master") { // on a busy machine the sentinels took the restart before for a failure, late
		if _, err := master.do(ctx, "ACL", "SETUSER", "replica", "on"); err != nil {
			return err
		}
		if err := s.settled(ctx); err != nil {
			return err
		}
		return s.LoseWrites(ctx, during)
	}
	if err != nil || !strings.Contains(info, "master_link_status:down") {
		return fmt.Errorf("replication was not cut: %w\n%s", err, info)
	}
	if err := master.Kill(); err != nil {
		return err
	}
	err = process.Await(ctx, "the sentinels chose the replica", func(ctx context.Context) error {
		now, _, err := s.roles(ctx)
		if err == nil && now != replica {
			err = errors.New("the dead one is still the master")
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := master.start(ctx); err != nil {
		return err
	}
	return s.settled(ctx)
}

// roles asks the sentinels who is the master.
func (s *Sentinels) roles(ctx context.Context) (master, replica *server, err error) {
	reply, err := s.sentinels[0].do(ctx, "SENTINEL", "get-master-addr-by-name", masterName)
	if err != nil {
		return nil, nil, err
	}
	addr := strings.Replace(strings.Trim(reply, "[]"), " ", ":", 1)
	switch addr {
	case s.servers[0].addr:
		return s.servers[0], s.servers[1], nil
	case s.servers[1].addr:
		return s.servers[1], s.servers[0], nil
	}
	return nil, nil, fmt.Errorf("the sentinels say that the master is %q", reply)
}

// settled waits until the replica replicates and the sentinels know each other.
func (s *Sentinels) settled(ctx context.Context) error {
	return process.Await(ctx, "Redis replicates", func(ctx context.Context) error {
		master, _, err := s.roles(ctx)
		if err != nil {
			return err
		}
		info, err := master.do(ctx, "INFO", "replication")
		if err != nil || !strings.Contains(info, "role:master") || !strings.Contains(info, "state=online") {
			return fmt.Errorf("replication: %w: %s", err, info)
		}
		state, err := s.sentinels[0].do(ctx, "SENTINEL", "CKQUORUM", masterName)
		if err != nil || !strings.Contains(state, "3 usable") {
			return fmt.Errorf("quorum: %w: %s", err, state)
		}
		return nil
	})
}
