package separate

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"fairlead.dev/e2e/process"
	"fairlead.dev/e2e/stack"
	artifactv1 "fairlead.dev/gen/fairlead/artifact/v1"
	"fairlead.dev/gen/fairlead/artifact/v1/artifactv1connect"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	gitcachev1 "fairlead.dev/gen/fairlead/gitcache/v1"
	"fairlead.dev/gen/fairlead/gitcache/v1/gitcachev1connect"
	"fairlead.dev/platform/client"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/identity/identitytest"
)

// rereadWait is longer than services take to read a file again that has changed (1 s), and to use a new URL of Redis.
const rereadWait = 2500 * time.Millisecond

// rotated is a running stack whose secrets are replaced.
type rotated struct {
	*stack.Stack
	t       *testing.T
	servers stack.Servers
	ship    *stack.Ship
	hc      *http.Client
	token   string // of an administrator

	mark map[string]int // how long the logs of parts were when the traffic began
	load sync.WaitGroup
	end  context.CancelFunc
}

// TestSecretsAreRotatedOnRunningServices carries out the steps of docs/operate/rotate.md, while an agent syncs and
// reports, people write to the console and read through the tunnel, and commits are delivered. Nothing of that fails.
func TestSecretsAreRotatedOnRunningServices(t *testing.T) {
	t.Parallel()
	bins, err := stack.FindBinaries(t.Context(), "../..")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	r := &rotated{t: t}
	r.Stack, r.servers = stack.Rotating(ctx, t, bins)
	if r.ship, err = r.NewShip(ctx, "ship", "ship"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.ship.Deliver(ctx, "before"); err != nil {
		t.Fatal(err)
	}
	if r.hc, err = client.New(client.Config{CAFile: r.CAFile}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.hc.CloseIdleConnections)
	if r.token, err = r.Token(); err != nil {
		t.Fatal(err)
	}
	if err := process.Await(ctx, "both gitcaches are members", r.members); err != nil {
		t.Fatal(err)
	}
	r.begin(ctx)
	began := time.Now()
	r.hubSecret(ctx)
	t.Logf("the hub secret was rotated within %s", time.Since(began).Round(time.Millisecond))
	r.redis(ctx)
	r.postgres(ctx)
	r.end()
	r.load.Wait()
	r.undisturbed()
	t.Logf("all was rotated within %s", time.Since(began).Round(time.Millisecond))
}

// begin has all sorts of traffic go on until end.
func (r *rotated) begin(ctx context.Context) {
	ctx, r.end = context.WithCancel(ctx)
	r.mark = map[string]int{}
	for _, part := range []string{"agent-a", "distributor"} {
		r.mark[part] = len(r.log(part))
	}
	for name, ask := range map[string]func(context.Context) error{
		"write": r.write, "tunnel": r.tunnel, "members": r.members,
	} {
		r.load.Go(func() {
			tick := time.NewTicker(50 * time.Millisecond)
			defer tick.Stop()
			for n := 0; ; n++ {
				if err := ask(ctx); err != nil && ctx.Err() == nil {
					r.t.Errorf("%s, request %d: %v", name, n, err)
				}
				select {
				case <-ctx.Done():
					r.t.Logf("%s: %d requests", name, n)
					return
				case <-tick.C:
				}
			}
		})
	}
}

// log is what a part has said since the traffic began.
func (r *rotated) log(part string) string {
	r.t.Helper()
	text, err := r.Process(part).Log()
	if err != nil {
		r.t.Fatal(err)
	}
	return text[r.mark[part]:]
}

// undisturbed looks for what agent and distributor say of calls and streams that failed.
func (r *rotated) undisturbed() {
	r.t.Helper()
	failed := regexp.MustCompile(`.*(the hub did not say what to apply|the stream of nudges ended|tunnel session ended).*`)
	if lines := failed.FindAllString(r.log("agent-a"), -1); len(lines) > 0 {
		r.t.Errorf("the agent says %q", lines)
	}
	text := r.log("distributor")
	for _, call := range []string{"Sync", "Report"} {
		all := regexp.MustCompile(`.*procedure=/fairlead.delivery.v1.DeliveryService/`+call+
			` code=.*`).FindAllString(text, -1)
		if len(all) == 0 {
			r.t.Errorf("the distributor names no %s", call)
		}
		for _, line := range all {
			if !strings.Contains(line, " code=ok ") {
				r.t.Error(line)
			}
		}
		r.t.Logf("%s: %d calls", call, len(all))
	}
}

func (r *rotated) options(token string) []connect.ClientOption {
	return append(client.Options(), client.WithToken(identity.StaticToken(token)))
}

// write changes a cluster at the console.
func (r *rotated) write(ctx context.Context) error {
	req := &consolev1.UpdateClusterRequest{AllowMissing: true, Cluster: &consolev1.Cluster{
		Metadata: &consolev1.Metadata{Name: "written"}, Spec: &consolev1.ClusterSpec{Description: rand.Text()},
	}}
	_, err := consolev1connect.NewClusterServiceClient(r.hc, r.Hub["console"],
		r.options(r.token)...).UpdateCluster(ctx, req)
	return err
}

// tunnel reads from the cluster.
func (r *rotated) tunnel(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet,
		r.Hub["tunnel"]+"/clusters/a/api/v1/namespaces/default", nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+r.token)
	resp, err := r.hc.Do(req)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	_ = resp.Body.Close()
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s", resp.Status, text)
	}
	return err
}

// members wants each gitcache to know the other one.
func (r *rotated) members(ctx context.Context) error {
	for _, at := range []string{"gitcache", "gitcache-2"} {
		shards := gitcachev1connect.NewShardServiceClient(r.hc, r.URLs[at], r.options(r.token)...)
		resp, err := shards.ListReplicas(ctx, &gitcachev1.ListReplicasRequest{})
		if err == nil && len(resp.GetReplicas()) != 2 {
			err = fmt.Errorf("%s knows %d replicas", at, len(resp.GetReplicas()))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// put replaces a file as a volume does, and waits until all services have read it.
func (r *rotated) put(ctx context.Context, path string, lines ...string) {
	r.t.Helper()
	next := path + ".next"
	if err := errors.Join(os.WriteFile(next, []byte(strings.Join(lines, "\n")+"\n"), 0o600),
		os.Rename(next, path)); err != nil {
		r.t.Fatal(err)
	}
	select {
	case <-ctx.Done():
		r.t.Fatal(ctx.Err())
	case <-time.After(rereadWait):
	}
}

func (r *rotated) delivers(ctx context.Context, marker string) {
	r.t.Helper()
	if _, err := r.ship.Push(ctx, marker); err != nil {
		r.t.Fatal(err)
	}
	if err := r.ship.WaitApplied(ctx, marker); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rotated) hubSecret(ctx context.Context) {
	r.t.Helper()
	text, err := os.ReadFile(r.HubSecret())
	if err != nil {
		r.t.Fatal(err)
	}
	old, next := strings.TrimSpace(string(text)), rand.Text()
	r.put(ctx, r.HubSecret(), old, next)
	r.put(ctx, r.HubSecret(), next, old)
	r.delivers(ctx, "both hub secrets")
	if err := r.asks(ctx, old); err != nil {
		r.t.Errorf("the old hub secret is refused while it is in the file: %v", err)
	}
	r.put(ctx, r.HubSecret(), next)
	r.delivers(ctx, "new hub secret")
	if err := r.asks(ctx, next); err != nil {
		r.t.Errorf("the new hub secret: %v", err)
	}
	if err := r.asks(ctx, old); connect.CodeOf(err) != connect.CodeUnauthenticated {
		r.t.Errorf("a token that is sent with the old hub secret: %v", err)
	}
	identities := consolev1connect.NewIdentityServiceClient(r.hc, r.Hub["console"], client.Options()...)
	if _, err := identities.ExchangeHubSecret(ctx, exchange(old)); connect.CodeOf(err) != connect.CodeUnauthenticated {
		r.t.Errorf("the console takes the old hub secret: %v", err)
	}
}

func exchange(secret string) *consolev1.ExchangeHubSecretRequest {
	return &consolev1.ExchangeHubSecretRequest{
		HubSecret: secret, Subject: &consolev1.ExchangeHubSecretRequest_Service{Service: identity.ServiceDistributor},
	}
}

// asks calls a gitcache as a distributor that has this hub secret, with a token of the one that is in the file.
func (r *rotated) asks(ctx context.Context, secret string) error {
	text, err := os.ReadFile(r.HubSecret())
	if err != nil {
		return err
	}
	first, _, _ := strings.Cut(string(text), "\n")
	identities := consolev1connect.NewIdentityServiceClient(r.hc, r.Hub["console"], client.Options()...)
	got, err := identities.ExchangeHubSecret(ctx, exchange(first))
	if err != nil {
		return err
	}
	sent := identitytest.SendTo(identity.ServiceGitcache, got.GetToken().GetToken(), secret)
	artifacts := artifactv1connect.NewArtifactServiceClient(r.hc, r.Hub["gitcache"],
		append(client.Options(), client.WithToken(sent))...)
	_, err = artifacts.Resolve(ctx, &artifactv1.ResolveRequest{
		Queries: []*artifactv1.Query{{Source: "sample", Revision: "HEAD", Path: "ship"}},
	})
	return err
}

const nextPassword = "next-password"

// fileOf is the one line of a file, and the same with the next password.
func (r *rotated) fileOf(path string) (old, next string) {
	r.t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		r.t.Fatal(err)
	}
	old = strings.TrimSpace(string(text))
	return old, strings.Replace(old, stack.FirstPassword, nextPassword, 1)
}

func (r *rotated) redis(ctx context.Context) {
	r.t.Helper()
	_, next := r.fileOf(r.RedisURLFile())
	r.servers.Redis.Do("ACL", "SETUSER", stack.DataUser, ">"+nextPassword)
	r.put(ctx, r.RedisURLFile(), next)
	r.put(ctx, r.RedisURLFile(), next) // each service looks when it uses Redis next
	r.servers.Redis.Do("ACL", "SETUSER", stack.DataUser, "<"+stack.FirstPassword)
	r.delivers(ctx, "new password of Redis")
}

func (r *rotated) postgres(ctx context.Context) {
	r.t.Helper()
	old, next := r.fileOf(r.DatabaseURLFile())
	r.put(ctx, r.DatabaseURLFile(), old, next)
	r.servers.Postgres.SetPassword(r.t, stack.DataUser, nextPassword)
	r.delivers(ctx, "new password of PostgreSQL")
	r.put(ctx, r.DatabaseURLFile(), next)
	r.delivers(ctx, "the old password is gone")
}
