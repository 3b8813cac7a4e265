package rpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"connectrpc.com/connect"

	gitcachev1 "fairlead.dev/gen/fairlead/gitcache/v1"
	"fairlead.dev/gen/fairlead/gitcache/v1/gitcachev1connect"
	"fairlead.dev/platform/catalog"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/refusal"
	"fairlead.dev/platform/server"
	"fairlead.dev/services/gitcache/internal/authz"
	"fairlead.dev/services/gitcache/internal/browse"
	"fairlead.dev/services/gitcache/internal/rpc/wire"
	"fairlead.dev/services/gitcache/internal/source"
	"fairlead.dev/services/gitcache/internal/status"
)

// Sizes of pages.
const (
	defaultSources, maxSources = 100, 1000
	defaultCommits, maxCommits = 50, 500
	defaultEntries, maxEntries = 1000, 10000
)

// Sources is SourceService.
type Sources struct {
	gitcachev1connect.UnimplementedSourceServiceHandler

	// Ready says why this replica can't answer anything yet.
	Ready   func() error
	Rights  authz.Rights
	View    *status.View
	Browser *browse.Browser
	// UID of a source by its name; false: it is not in the catalog.
	UID func(name string) (string, bool)
	// Refresh asks the owner of a source, whoever it is, to poll now.
	Refresh func(ctx context.Context, uid string) error
	Packs   Packs
	Log     *slog.Logger
}

// ListSources returns a page of live states. Another replica gets what this one owns or has a copy of.
func (s *Sources) ListSources(ctx context.Context, req *gitcachev1.ListSourcesRequest) (*gitcachev1.ListSourcesResponse, error) {
	if err := s.ready(); err != nil {
		return nil, err
	}
	q := status.Query{
		Size: size(req.GetPageSize(), defaultSources, maxSources), Token: req.GetPageToken(), Filter: req.GetFilter(), OrderBy: req.GetOrderBy(),
	}
	if err := s.Rights.View(caller(ctx)); err != nil {
		return nil, err
	}
	var list status.List
	var err error
	if forwarded(ctx) {
		list, err = s.View.Mine(q)
	} else {
		list, err = s.View.List(ctx, q)
	}
	if err != nil {
		return nil, s.toConnect(ctx, err)
	}
	return &gitcachev1.ListSourcesResponse{
		Sources: wire.LiveMessages(list.Sources), NextPageToken: list.Next, Total: int32(list.Total), SilentReplicas: list.Silent,
	}, nil
}

// GetSource tells the live state of a source.
func (s *Sources) GetSource(ctx context.Context, req *gitcachev1.GetSourceRequest) (*gitcachev1.GetSourceResponse, error) {
	if err := s.ready(); err != nil {
		return nil, err
	}
	if err := s.Rights.View(caller(ctx)); err != nil {
		return nil, err
	}
	source, ok, err := s.View.Source(ctx, req.GetName())
	if err != nil {
		return nil, s.toConnect(ctx, err)
	}
	if !ok {
		return nil, notFound(req.GetName())
	}
	return &gitcachev1.GetSourceResponse{Source: wire.LiveMessage(source)}, nil
}

// WatchSources tells what there is, then what changes. With the drain of this replica it ends well:
// another one can be asked.
func (s *Sources) WatchSources(ctx context.Context, req *gitcachev1.WatchSourcesRequest, out *connect.ServerStream[gitcachev1.WatchSourcesResponse]) error {
	if err := s.ready(); err != nil {
		return err
	}
	if err := s.Rights.View(caller(ctx)); err != nil {
		return err
	}
	var refused error // meanwhile
	err := s.View.Watch(ctx, req.GetFilter(), func(e status.Event) error {
		if refused = s.Rights.View(caller(ctx)); refused != nil {
			return refused
		}
		return out.Send(&gitcachev1.WatchSourcesResponse{Sources: wire.LiveMessages(e.Sources), Gone: e.Gone, Synced: e.Synced})
	})
	if refused != nil {
		return refused
	}
	select {
	case <-server.Draining(ctx):
		return nil
	default:
		return s.toConnect(ctx, err)
	}
}

// RefreshSource makes the owner poll now.
func (s *Sources) RefreshSource(ctx context.Context, req *gitcachev1.RefreshSourceRequest) (*gitcachev1.RefreshSourceResponse, error) {
	if err := s.Rights.Refresh(caller(ctx), req.GetName()); err != nil {
		return nil, err
	}
	uid, ok := s.UID(req.GetName())
	if !ok {
		return nil, notFound(req.GetName())
	}
	if err := s.Refresh(ctx, uid); err != nil {
		return nil, connect.NewError(connect.CodeUnavailable,
			fmt.Errorf("source %q: its owner can't be told now. It polls by itself at its next interval", req.GetName()))
	}
	return &gitcachev1.RefreshSourceResponse{}, nil
}

// ListCommits returns a page of a history.
func (s *Sources) ListCommits(ctx context.Context, req *gitcachev1.ListCommitsRequest) (*gitcachev1.ListCommitsResponse, error) {
	if err := s.ready(); err != nil {
		return nil, err
	}
	if err := s.Rights.Read(caller(ctx), req.GetSource()); err != nil {
		return nil, err
	}
	p := browse.Place{Source: req.GetSource(), Revision: req.GetRevision(), Path: req.GetPath(), Until: req.GetUntil()}
	page := browse.Page{Size: size(req.GetPageSize(), defaultCommits, maxCommits), Token: req.GetPageToken()}
	commits, err := s.Browser.Commits(ctx, p, page, forwarded(ctx))
	if err != nil {
		return nil, s.toConnect(ctx, err)
	}
	return wire.CommitsMessage(commits), nil
}

// ListTree returns a page of a folder.
func (s *Sources) ListTree(ctx context.Context, req *gitcachev1.ListTreeRequest) (*gitcachev1.ListTreeResponse, error) {
	if err := s.ready(); err != nil {
		return nil, err
	}
	if err := s.Rights.Read(caller(ctx), req.GetSource()); err != nil {
		return nil, err
	}
	p := browse.Place{Source: req.GetSource(), Revision: req.GetRevision(), Path: req.GetPath()}
	page := browse.Page{Size: size(req.GetPageSize(), defaultEntries, maxEntries), Token: req.GetPageToken()}
	listing, err := s.Browser.Tree(ctx, p, page, forwarded(ctx))
	if err != nil {
		return nil, s.toConnect(ctx, err)
	}
	return wire.TreeMessage(listing), nil
}

// ReadFile returns a file.
func (s *Sources) ReadFile(ctx context.Context, req *gitcachev1.ReadFileRequest) (*gitcachev1.ReadFileResponse, error) {
	if err := s.ready(); err != nil {
		return nil, err
	}
	if err := s.Rights.Read(caller(ctx), req.GetSource()); err != nil {
		return nil, err
	}
	p := browse.Place{Source: req.GetSource(), Revision: req.GetRevision(), Path: req.GetPath()}
	file, err := s.Browser.File(ctx, p, forwarded(ctx))
	if isUnpublishedChart(p, err) {
		return s.readUnpublished(ctx, req, p)
	}
	if err != nil {
		return nil, s.toConnect(ctx, err)
	}
	return wire.FileMessage(file), nil
}

// isUnpublishedChart tells whether a revision that is not here is a version of a chart, which can be asked for by
// itself.
func isUnpublishedChart(p browse.Place, err error) bool {
	_, _, isChart := catalog.ParseChartRef(p.Revision)
	return isChart && browse.IsNoRevision(err)
}

// readUnpublished has the owner of the source fetch a version of a chart that no service names, and reads a file of it.
func (s *Sources) readUnpublished(ctx context.Context, req *gitcachev1.ReadFileRequest, p browse.Place) (*gitcachev1.ReadFileResponse, error) {
	if err := s.Rights.Refresh(caller(ctx), p.Source); err != nil {
		return nil, err
	}
	uid, ok := s.UID(p.Source)
	if !ok {
		return nil, notFound(p.Source)
	}
	if !s.Packs.Owned(uid) {
		at, ok := s.Packs.Owner(ctx, uid)
		if forwarded(ctx) || !ok {
			const text = "source %q: %s is not here, and the owner of the source can't be reached: try again"
			return nil, connect.NewError(connect.CodeUnavailable, fmt.Errorf(text, p.Source, catalog.ShowRef(p.Revision)))
		}
		resp, err := at.ReadFile(ctx, req)
		return resp, relayed(ctx, err)
	}
	commit, err := s.Packs.Look(ctx, uid, p.Revision, source.Folder{})
	if err != nil {
		return nil, s.toConnect(ctx, err)
	}
	p.Revision = commit
	file, err := s.Browser.File(ctx, p, true)
	if err != nil {
		return nil, s.toConnect(ctx, err)
	}
	return wire.FileMessage(file), nil
}

func (s *Sources) ready() error {
	if err := s.Ready(); err != nil {
		return connect.NewError(connect.CodeUnavailable, err)
	}
	return nil
}

func caller(ctx context.Context) identity.Identity {
	who, _ := identity.FromContext(ctx)
	return who
}

// forwarded tells whether another replica asks: it gets what is here.
func forwarded(ctx context.Context) bool {
	info, ok := connect.CallInfoForHandlerContext(ctx)
	return ok && wire.IsForwarded(info.RequestHeader())
}

func size(asked int32, usual, most int) int {
	if asked <= 0 {
		return usual
	}
	return min(int(asked), most)
}

func notFound(name string) error {
	return connect.NewError(connect.CodeNotFound, fmt.Errorf("source %q is not in the catalog. Apply it, or correct the name", name))
}

// toConnect chooses the code of an error.
func (s *Sources) toConnect(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if refused, ok := errors.AsType[*refusal.Error](err); ok {
		return connect.NewError(refused.Reason.Code(), refused)
	}
	s.Log.WarnContext(ctx, "a source can't be shown", "err", err)
	return connect.NewError(connect.CodeInternal, errors.New("the mirror can't be read. Ask again; what is wrong is in the log of the gitcache"))
}
