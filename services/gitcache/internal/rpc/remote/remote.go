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
	"fairlead.dev/services/gitcache/internal/browse"
	"fairlead.dev/services/gitcache/internal/live"
	"fairlead.dev/services/gitcache/internal/rpc/wire"
)

const (
	// browseTime bounds one question about what is in a source.
	browseTime = 10 * time.Second
	// pageSize of live states: with hundreds of heads each it stays below the limit of a message.
	pageSize = 200
	// maxAnswerBytes of one answer.
	maxAnswerBytes = 32 << 20
)

// Peers are the other replicas.
type Peers interface {
	OwnerMember(ctx context.Context, uid string) (coordination.Member, bool)
	Others() []coordination.Member
	HTTP(m coordination.Member) *http.Client
}

// Replicas asks other replicas.
type Replicas struct{ Peers Peers }

// Replica is one of them: a live.Replica and a browse.Replica.
type Replica struct {
	name string
	rpc  gitcachev1connect.SourceServiceClient
}

func (r Replicas) at(m coordination.Member) Replica {
	return Replica{m.ID, gitcachev1connect.NewSourceServiceClient(r.Peers.HTTP(m), m.URL, connect.WithReadMaxBytes(maxAnswerBytes))}
}

// Live are all of them, to ask what they own.
func (r Replicas) Live() []live.Replica { return each[live.Replica](r) }

// All of them, to ask what is in a source.
func (r Replicas) All() []browse.Replica { return each[browse.Replica](r) }

func each[T any](r Replicas) []T {
	var all []T
	for _, m := range r.Peers.Others() {
		all = append(all, any(r.at(m)).(T)) //nolint:forcetypeassert // of two interfaces that Replica is
	}
	return all
}

// Owner is the one that fetches a source.
func (r Replicas) Owner(ctx context.Context, uid string) (browse.Replica, bool) {
	m, ok := r.Peers.OwnerMember(ctx, uid)
	if !ok {
		return nil, false
	}
	return r.at(m), true
}

// Client of the one that fetches a source.
func (r Replicas) Client(ctx context.Context, uid string) (gitcachev1connect.SourceServiceClient, bool) {
	m, ok := r.Peers.OwnerMember(ctx, uid)
	if !ok {
		return nil, false
	}
	return r.at(m).rpc, true
}

// Name of the replica.
func (r Replica) Name() string { return r.name }

// Sources is what it owns or has a copy of.
func (r Replica) Sources(ctx context.Context) ([]*live.Source, error) {
	var all []*live.Source
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
func (r Replica) Commits(ctx context.Context, p browse.Place, page browse.Page) (browse.Commits, error) {
	ctx, cancel := context.WithTimeout(ctx, browseTime)
	defer cancel()
	m, err := r.rpc.ListCommits(ctx, &gitcachev1.ListCommitsRequest{
		Source: p.Source, Revision: p.Revision, Path: p.Path, Until: p.Until, PageSize: int32(page.Size), PageToken: page.Token,
	})
	return wire.Commits(m), verdict(err)
}

// Tree is a page of a folder.
func (r Replica) Tree(ctx context.Context, p browse.Place, page browse.Page) (browse.Listing, error) {
	ctx, cancel := context.WithTimeout(ctx, browseTime)
	defer cancel()
	m, err := r.rpc.ListTree(ctx, &gitcachev1.ListTreeRequest{
		Source: p.Source, Revision: p.Revision, Path: p.Path, PageSize: int32(page.Size), PageToken: page.Token,
	})
	return wire.Tree(m), verdict(err)
}

// File is a file.
func (r Replica) File(ctx context.Context, p browse.Place) (browse.File, error) {
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
		for kind, code := range map[browse.Kind]connect.Code{
			browse.NotFound: connect.CodeNotFound, browse.Invalid: connect.CodeInvalidArgument, browse.TooLarge: connect.CodeResourceExhausted,
		} {
			if said.Code() == code {
				return &browse.Error{Kind: kind, Message: said.Message()}
			}
		}
	}
	return fmt.Errorf("ask another replica: %w", err)
}
