// Package join gives the agent its identity: it turns a join token, once, into a credential of its own.
package join

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	"fairlead.dev/platform/durable"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/retry"
)

const (
	tokenFile      = "token"
	membershipFile = "cluster.json"
	// keyFile holds the key pair that the token is bound to. The pair is made here and sent nowhere.
	keyFile = "key"
	// renewalFile holds the request by which the token is being renewed: the same one until there is an answer.
	renewalFile = "renewal.json"
	callTimeout = 30 * time.Second
	// retryFloor and retryMax bound the wait for a console that does not answer.
	retryFloor, retryMax = 200 * time.Millisecond, 30 * time.Second
	howToMakeOne         = "Make a new one with `fairlead cluster join-token NAME` and give it in --join-token-file"
)

// ErrReplaced says that the agent joined, while it ran, as another cluster of the same name.
var ErrReplaced = errors.New("the agent joined as another cluster of the same name: of another hub, or made again in the catalog. " +
	"The agent ends; started again it works for that cluster")

// Endpoints is where the hub is.
type Endpoints struct {
	Distributors []string `json:"distributors"`
	Tunnels      []string `json:"tunnels"`
	Gitcaches    []string `json:"gitcaches"`
}

// Membership is what joining gave.
type Membership struct {
	Cluster   string    `json:"cluster"`
	Endpoints Endpoints `json:"endpoints"`
}

// Joiner keeps the membership, the token and the key that the token is bound to in a folder.
type Joiner struct {
	dir    string
	client consolev1connect.IdentityServiceClient
	tokens *identity.TokenFile
	clock  identity.HubClock
	log    *slog.Logger
	// replaced holds a value once the token on disk is one of another cluster of the same name.
	replaced chan struct{}

	mu sync.Mutex // guards what follows
	// member is what the file holds; empty before joining.
	member Membership
	// key is nil before joining.
	key *identity.AgentKey
	// renewal is what the file holds.
	renewal renewal
	// lost is why the token on disk is worth nothing; nil: it is not.
	lost error
}

// renewal is a request to renew a token.
type renewal struct {
	// Token is SHA-256 of the token.
	Token []byte `json:"token"`
	// Request is random.
	Request []byte `json:"request"`
}

// Open reads what the folder holds. The client needs no credential.
func Open(dir string, client consolev1connect.IdentityServiceClient, log *slog.Logger) (*Joiner, error) {
	j := &Joiner{dir: dir, client: client, tokens: identity.NewTokenFile(filepath.Join(dir, tokenFile)), log: log, replaced: make(chan struct{}, 1)}
	if err := j.readKey(); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(filepath.Join(dir, membershipFile))
	if errors.Is(err, fs.ErrNotExist) {
		return j, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read credential: %w", err)
	}
	if err := json.Unmarshal(data, &j.member); err != nil {
		return nil, fmt.Errorf("read credential: %s is damaged: %w. Remove it and join again. %s", membershipFile, err, howToMakeOne)
	}
	return j, nil
}

// readKey reads the key, and looks whether it is the one which the token is bound to. An agent of before there were
// keys gets one.
func (j *Joiner) readKey() error {
	data, err := os.ReadFile(filepath.Join(j.dir, keyFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read credential: %w", err)
	}
	if err == nil {
		if j.key, err = identity.ParseAgentKey(data); err != nil {
			j.log.Error("the agent's key is damaged", "file", filepath.Join(j.dir, keyFile), "err", err)
		}
	}
	if data, err = os.ReadFile(filepath.Join(j.dir, renewalFile)); err == nil {
		_ = json.Unmarshal(data, &j.renewal) // a damaged one is none
	}
	token, err := j.tokens.Token(context.Background())
	if err != nil {
		return nil //nolint:nilerr // it joins
	}
	switch bound := identity.BoundTo(token); {
	case bound == "" && j.key == nil:
		return j.makeKey()
	case bound != "" && (j.key == nil || j.key.Public() != bound):
		j.lost = fmt.Errorf("the agent's token is bound to a key that is not in %s any more: without the key the hub takes the token for a copy, so the agent has to join again",
			filepath.Join(j.dir, keyFile))
	}
	return nil
}

// makeKey makes the key. A key that is not on the disk is not used: a token that is bound to it would be lost with the
// process.
func (j *Joiner) makeKey() error {
	key, err := identity.NewAgentKey()
	if err != nil {
		return err
	}
	text, err := key.Marshal()
	if err != nil {
		return err
	}
	if err := durable.WriteFile(filepath.Join(j.dir, keyFile), text, 0o600); err != nil {
		return fmt.Errorf("keep the agent's key: %w", err)
	}
	j.key = key
	return nil
}

// Tokens is the agent's token, without proofs.
func (j *Joiner) Tokens() *identity.TokenFile { return j.tokens }

// For is the agent's credential for a sort of service of the hub: its token, with proofs that the agent has the key.
func (j *Joiner) For(service string) *identity.Prover {
	return &identity.Prover{TokenSource: j.tokens, Key: j.agentKey, Audience: service, Clock: &j.clock}
}

// Clock is the hub's, as far as the agent knows it.
func (j *Joiner) Clock() *identity.HubClock { return &j.clock }

func (j *Joiner) agentKey() *identity.AgentKey {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.key
}

// Bind returns what a renewal of a token shows of the key. The request is on the disk before it is sent: who repeats it
// gets the same answer, and who asks for another renewal of the same token has a copy of it.
func (j *Joiner) Bind(token string) (*consolev1.AgentKey, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.key == nil {
		return nil, fmt.Errorf("the agent has no key. %s", howToMakeOne)
	}
	sum := sha256.Sum256([]byte(token))
	if !bytes.Equal(j.renewal.Token, sum[:]) {
		next := renewal{Token: sum[:], Request: []byte(rand.Text())}
		data, err := json.Marshal(next)
		if err != nil {
			return nil, fmt.Errorf("keep the renewal: %w", err)
		}
		if err := durable.WriteFile(filepath.Join(j.dir, renewalFile), data, 0o600); err != nil {
			return nil, fmt.Errorf("keep the renewal: %w", err)
		}
		j.renewal = next
	}
	return j.key.ForRenewal(token, j.renewal.Request), nil
}

// Cluster is the hub's name for the cluster; empty before joining.
func (j *Joiner) Cluster() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.member.Cluster
}

// Endpoints is where the hub is, as last heard.
func (j *Joiner) Endpoints() Endpoints {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.member.Endpoints
}

// Join returns the membership: the one on disk, or else that which the join token in the file gives. Join waits for a
// console that does not answer, and fails when only a person can help.
func (j *Joiner) Join(ctx context.Context, joinTokenFile string) (Membership, error) {
	j.mu.Lock()
	member, lost := j.member, j.lost
	j.mu.Unlock()
	if _, err := j.tokens.Token(ctx); err == nil && member.Cluster != "" && lost == nil {
		return member, nil
	}
	backoff := retry.Backoff{Floor: retryFloor, Max: retryMax}
	for {
		_, err := j.Obtain(ctx, joinTokenFile)
		if err == nil {
			j.mu.Lock()
			defer j.mu.Unlock()
			return j.member, nil
		}
		if !temporary(err) || ctx.Err() != nil {
			if lost != nil {
				err = fmt.Errorf("%w: %w", lost, err)
			}
			return Membership{}, err
		}
		wait := backoff.Next()
		j.log.Warn("the hub can't be reached to join it", "err", err, "retry_in", wait)
		if !retry.Sleep(ctx, wait) {
			return Membership{}, context.Cause(ctx)
		}
	}
}

// temporary tells what time may mend from what needs a person.
func temporary(err error) bool {
	switch connect.CodeOf(err) {
	case connect.CodeUnavailable, connect.CodeDeadlineExceeded, connect.CodeResourceExhausted, connect.CodeInternal, connect.CodeAborted:
		return true
	}
	return false
}

// Run waits until ctx ends, or fails with ErrReplaced.
func (j *Joiner) Run(ctx context.Context) error {
	select {
	case <-j.replaced:
		return ErrReplaced
	case <-ctx.Done():
		return nil
	}
}

// Obtain joins, and returns the agent's token, which is on disk by then. The token of another cluster of the same name
// is for the next process only: what this process wants, and what it names its cluster, is the other one's. Obtain fails
// with ErrReplaced then, and so does Run.
func (j *Joiner) Obtain(ctx context.Context, joinTokenFile string) (string, error) {
	secret, err := readJoinToken(joinTokenFile)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	key, err := j.newKey()
	if err != nil {
		return "", err
	}
	answer, err := j.client.JoinCluster(ctx, &consolev1.JoinClusterRequest{
		JoinToken: secret, Key: key.ForJoin(secret), Cluster: j.Cluster(),
	})
	if connect.CodeOf(err) == connect.CodeUnauthenticated || connect.CodeOf(err) == connect.CodeInvalidArgument {
		return "", fmt.Errorf("join cluster: the join token in %s is unknown, used or expired: it works once, for 15 minutes. %s", joinTokenFile, howToMakeOne)
	}
	if err != nil {
		return "", fmt.Errorf("join cluster: %w", err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.member.Cluster != "" && j.member.Cluster != answer.GetCluster() {
		return "", fmt.Errorf("join cluster: this agent is cluster %q, and the join token is for cluster %q. Use another --data-dir", j.member.Cluster, answer.GetCluster())
	}
	if err := j.keep(Membership{Cluster: answer.GetCluster(), Endpoints: endpoints(answer.GetEndpoints())}); err != nil {
		return "", err
	}
	j.lost = nil
	// The token last: with it on disk the join token is not asked for again.
	token := answer.GetToken().GetToken()
	before, _ := j.tokens.Token(ctx) // without one there was no cluster
	if was, is := identity.ClusterOf(before), identity.ClusterOf(token); was != "" && is != "" && was != is {
		if err := durable.WriteFile(filepath.Join(j.dir, tokenFile), []byte(token+"\n"), 0o600); err != nil {
			return "", fmt.Errorf("keep credential: %w", err)
		}
		select {
		case j.replaced <- struct{}{}:
		default:
		}
		return "", ErrReplaced
	}
	if err := j.tokens.Store(token); err != nil {
		return "", fmt.Errorf("keep credential: %w", err)
	}
	return token, nil
}

// newKey is the key that the agent joins with: the one that it has.
func (j *Joiner) newKey() (*identity.AgentKey, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.key == nil {
		if err := j.makeKey(); err != nil {
			return nil, fmt.Errorf("join cluster: %w", err)
		}
	}
	return j.key, nil
}

// Moved takes note of where the hub is now, and tells whether that is new.
func (j *Joiner) Moved(now *consolev1.Endpoints) (Endpoints, bool) {
	next := endpoints(now)
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(next.Distributors) == 0 || next.equal(j.member.Endpoints) {
		return j.member.Endpoints, false
	}
	if err := j.keep(Membership{Cluster: j.member.Cluster, Endpoints: next}); err != nil {
		j.log.Warn("the hub's new endpoints can't be kept on disk", "err", err)
		j.member.Endpoints = next
	}
	return next, true
}

// keep writes the membership. The caller holds mu.
func (j *Joiner) keep(member Membership) error {
	data, err := json.MarshalIndent(member, "", "  ")
	if err != nil {
		return fmt.Errorf("keep credential: %w", err)
	}
	if err := durable.WriteFile(filepath.Join(j.dir, membershipFile), data, 0o600); err != nil {
		return fmt.Errorf("keep credential: %w", err)
	}
	j.member = member
	return nil
}

func readJoinToken(path string) (string, error) {
	if path == "" {
		return "", fmt.Errorf("join cluster: this agent has not joined yet, and there is no --join-token-file. %s", howToMakeOne)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("join cluster: read join token: %w. %s", err, howToMakeOne)
	}
	secret := strings.TrimSpace(string(data))
	if secret == "" {
		return "", fmt.Errorf("join cluster: the join token file %s is empty. %s", path, howToMakeOne)
	}
	return secret, nil
}

func endpoints(e *consolev1.Endpoints) Endpoints {
	return Endpoints{Distributors: e.GetDistributors(), Tunnels: e.GetTunnels(), Gitcaches: e.GetGitcaches()}
}

func (e Endpoints) equal(other Endpoints) bool {
	return slices.Equal(e.Distributors, other.Distributors) && slices.Equal(e.Tunnels, other.Tunnels) && slices.Equal(e.Gitcaches, other.Gitcaches)
}
