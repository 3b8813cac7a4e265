// Package join gives the agent its identity: it turns a join token, once, into a credential of its own.
package join

import (
	"context"
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
	"fairlead.dev/platform/hub"
	"fairlead.dev/platform/identity"
)

const (
	tokenFile      = "token"
	membershipFile = "cluster.json"
	callTimeout    = 30 * time.Second
	// retryFloor and retryMax bound the wait for a console that does not answer.
	retryFloor, retryMax = 200 * time.Millisecond, 30 * time.Second
	howToMakeOne         = "Make a new one with `fairlead cluster join-token NAME` and give it in --join-token-file"
)

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

// Joiner keeps the membership and the token in a folder.
type Joiner struct {
	dir    string
	client consolev1connect.IdentityServiceClient
	tokens *identity.TokenFile
	log    *slog.Logger

	mu sync.Mutex // guards member
	// member is what the file holds; empty before joining.
	member Membership
}

// Open reads what the folder holds. The client needs no credential.
func Open(dir string, client consolev1connect.IdentityServiceClient, log *slog.Logger) (*Joiner, error) {
	j := &Joiner{dir: dir, client: client, tokens: identity.NewTokenFile(filepath.Join(dir, tokenFile)), log: log}
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

// Tokens is the agent's credential.
func (j *Joiner) Tokens() *identity.TokenFile { return j.tokens }

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

// Join returns the membership: the one on disk, or else that which the join token in the file gives. It
// waits for a console that does not answer, and fails when only a person can help.
func (j *Joiner) Join(ctx context.Context, joinTokenFile string) (Membership, error) {
	j.mu.Lock()
	member := j.member
	j.mu.Unlock()
	if _, err := j.tokens.Token(ctx); err == nil && member.Cluster != "" {
		return member, nil
	}
	backoff := hub.Backoff{Floor: retryFloor, Max: retryMax}
	for {
		_, err := j.Obtain(ctx, joinTokenFile)
		if err == nil {
			j.mu.Lock()
			defer j.mu.Unlock()
			return j.member, nil
		}
		if !temporary(err) || ctx.Err() != nil {
			return Membership{}, err
		}
		wait := backoff.Next()
		j.log.Warn("the hub can't be reached to join it", "err", err, "retry_in", wait)
		select {
		case <-ctx.Done():
			return Membership{}, context.Cause(ctx)
		case <-time.After(wait):
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

// Obtain joins, and returns the agent's token, which is on disk by then.
func (j *Joiner) Obtain(ctx context.Context, joinTokenFile string) (string, error) {
	secret, err := readJoinToken(joinTokenFile)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	answer, err := j.client.JoinCluster(ctx, &consolev1.JoinClusterRequest{JoinToken: secret})
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
	// The token last: with it on disk the join token is not asked for again.
	if err := j.tokens.Store(answer.GetToken().GetToken()); err != nil {
		return "", fmt.Errorf("keep credential: %w", err)
	}
	return answer.GetToken().GetToken(), nil
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
