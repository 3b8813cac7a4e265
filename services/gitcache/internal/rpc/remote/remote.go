// Package remote is SourceService of the other replicas, as live and browse ask it. Requests are marked
// as forwarded: who gets one answers from what it has.
package remote

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"connectrpc.com/connect"

	gitcachev1 "fairlead.dev/gen/fairlead/gitcache/v1"
	"fairlead.dev/gen/fairlead/gitcache/v1/gitcachev1connect"
	"fairlead.dev/platform/coordination"
	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/gitcache/internal/browse"
	"fairlead.dev/services/gitcache/internal/rpc/wire"
	"fairlead.dev/services/gitcache/internal/status"
)

const (
	// browseTime bounds one question about what is in a source.
	browseTime = 10 * time.Second
	// pageSize of live states: with hundreds of heads each it stays below the limit of a message.
	pageSize = 200
	// maxAnswerBytes of one answer.
	maxAnswerBytes = 32 << 20
)

// Members are the other replicas.
type Members interface {
	OwnerMember(ctx context.Context, uid string) (coordination.Member, bool)
	Others() []coordination.Member
	HTTP(m coordination.Member) *http.Client
}

// Peers asks other replicas.
type Peers struct{ Members Members }

// Peer is one of them: a status.Peer and a browse.Peer.
type Peer struct {
	name string
	rpc  gitcachev1connect.SourceServiceClient
}

func (r Peers) at(m coordination.Member) Peer {
	return Peer{m.ID, gitcachev1connect.NewSourceServiceClient(r.Members.HTTP(m), m.URL, connect.WithReadMaxBytes(maxAnswerBytes))}
}

// Live are all of them, to ask what they own.
func (r Peers) Live() []status.Peer { return each[status.Peer](r) }

// All of them, to ask what is in a source.
func (r Peers) All() []browse.Peer { return each[browse.Peer](r) }

func each[T any](r Peers) []T {
	var all []T
	for _, m := range r.Members.Others() {
		all = append(all, any(r.at(m)).(T)) //nolint:forcetypeassert // of two interfaces that Peer is
	}
	return all
}

// Owner is the one that fetches a source.
func (r Peers) Owner(ctx context.Context, uid string) (browse.Peer, bool) {
	m, ok := r.Members.OwnerMember(ctx, uid)
	if !ok {
		return nil, false
	}
	return r.at(m), true
}

// Client of the one that fetches a source.
func (r Peers) Client(ctx context.Context, uid string) (gitcachev1connect.SourceServiceClient, bool) {
	m, ok := r.Members.OwnerMember(ctx, uid)
	if !ok {
		return nil, false
	}
	return r.at(m).rpc, true
}

// Name of the replica.
func (r Peer) Name() string { return r.name }

// Sources is what it owns or has a copy of.
func (r Peer) Sources(ctx context.Context) ([]*status.Source, error) {
	var all []*status.Source
	for token := ""; ; {
		m, err := r.rpc.ListSources(ctx, &gitcachev1.ListSourcesRequest{PageSize: pageSize, PageToken: token})
		if err != nil {
			return nil, fmt.Errorf("list sources of %s: %w", r.name, err)
		}
		for _, s := range m.GetSources() {
			all = append(all, wire.Live(s))
		}
		next := m.GetNextPageToken()
		if next == "" {
			return all, nil
		}
		if next == token || len(m.GetSources()) == 0 {
			return nil, fmt.Errorf("list sources of %s: it repeats a page", r.name)
		}
		token = next
	}
}

// Commits is a page of a history.
func (r Peer) Commits(ctx context.Context, p browse.Place, page browse.Page) (browse.Commits, error) {
	ctx, cancel := context.WithTimeout(ctx, browseTime)
	defer cancel()
	m, err := r.rpc.ListCommits(ctx, &gitcachev1.ListCommitsRequest{
		Source: p.Source, Revision: p.Revision, Path: p.Path, Until: p.Until, PageSize: int32(page.Size), PageToken: page.Token,
	})
	return wire.Commits(m), verdict(err)
}

// Tree is a page of a folder.
func (r Peer) Tree(ctx context.Context, p browse.Place, page browse.Page) (browse.Listing, error) {
	ctx, cancel := context.WithTimeout(ctx, browseTime)
	defer cancel()
	m, err := r.rpc.ListTree(ctx, &gitcachev1.ListTreeRequest{
		Source: p.Source, Revision: p.Revision, Path: p.Path, PageSize: int32(page.Size), PageToken: page.Token,
	})
	return wire.Tree(m), verdict(err)
}

// File is a file.
func (r Peer) File(ctx context.Context, p browse.Place) (browse.File, error) {
	ctx, cancel := context.WithTimeout(ctx, browseTime)
	defer cancel()
	m, err := r.rpc.ReadFile(ctx, &gitcachev1.ReadFileRequest{Source: p.Source, Revision: p.Revision, Path: p.Path})
	return wire.File(m), verdict(err)
}

// verdict keeps what another replica said about the content apart from why it could not say anything.
func verdict(err error) error {
	if err == nil {
		return nil
	}
	var said *connect.Error
	if errors.As(err, &said) && connect.IsWireError(err) {
		for _, reason := range []refusal.Reason{refusal.NotFound, refusal.Invalid, refusal.Exhausted} {
			if said.Code() == reason.Code() {
				return refusal.New(reason, "%s", said.Message())
			}
		}
	}
	return fmt.Errorf("ask another replica: %w", err)
}
