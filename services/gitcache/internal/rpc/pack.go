package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"

	"connectrpc.com/connect"

	gitcachev1 "fairlead.dev/gen/fairlead/gitcache/v1"
	"fairlead.dev/gen/fairlead/gitcache/v1/gitcachev1connect"
	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/catalog"
	"fairlead.dev/platform/pathrules"
	"fairlead.dev/services/gitcache/internal/origin"
	"fairlead.dev/services/gitcache/internal/rpc/wire"
	"fairlead.dev/services/gitcache/internal/source"
)

// Packs is what PackService is made with.
type Packs struct {
	// Service of the catalog by its name.
	Service func(name string) (*catalog.Service, bool)
	// Published is the commit of a canonical ref that was published, or of a published commit's id.
	Published func(source, ref string) (commit string, ok bool)
	// Owned tells whether this replica fetches the source: then Look fetches a revision that was not published.
	Owned func(uid string) bool
	// The charts that the charts in the folder depend on come with it.
	Look func(ctx context.Context, uid, ref string, folder source.Folder) (commit string, err error)
	// Owner is the replica that fetches the source; false: there is none, or it can't be reached.
	Owner  func(ctx context.Context, uid string) (gitcachev1connect.SourceServiceClient, bool)
	Origin *origin.Origin
	// Open reads an artifact that Origin has named.
	Open func(ctx context.Context, d artifact.Digest) (io.ReadCloser, error)
}

// PackService sends what a service would get from another revision of its source.
func (s *Sources) PackService(ctx context.Context, req *gitcachev1.PackServiceRequest, out *connect.ServerStream[gitcachev1.PackServiceResponse]) error {
	if err := s.ready(); err != nil {
		return err
	}
	if err := s.Rights.EditService(caller(ctx), req.GetService()); err != nil {
		return err
	}
	service, ok := s.Packs.Service(req.GetService())
	if !ok {
		return connect.NewError(connect.CodeNotFound, fmt.Errorf("service %q is not in the catalog. Apply it, or correct the name", req.GetService()))
	}
	folder := service.Folder()
	uid, ok := s.UID(folder.Source)
	if !ok {
		return notFound(folder.Source)
	}
	ref, err := service.RevisionRef(req.GetRevision())
	if err != nil {
		return connect.NewError(connect.CodeFailedPrecondition, fmt.Errorf("service %q: %w", req.GetService(), err))
	}
	commit, published := s.Packs.Published(folder.Source, ref)
	if !published && !s.Packs.Owned(uid) {
		return s.passOn(ctx, uid, folder.Source, req, out)
	}
	if !published {
		// The beginning of an id may stand for a commit. All others go through the source's rules, also those that the
		// mirror has by chance.
		if known, err := s.Browser.Commit(ctx, folder.Source, req.GetRevision()); err == nil && !catalog.IsCombination(ref) {
			ref = known.ID.String()
		}
		rules, err := pathrules.Parse(folder.Include.Lines(), folder.Ignore.Lines())
		if err != nil {
			return connect.NewError(connect.CodeFailedPrecondition, fmt.Errorf("service %q: %w", req.GetService(), err))
		}
		if commit, err = s.Packs.Look(ctx, uid, ref, source.Folder{Path: folder.Path, Rules: rules.Canonical()}); err != nil {
			return s.toConnect(ctx, err)
		}
	}
	return s.sendPacked(ctx, origin.Query{
		Source: folder.Source, Revision: commit, Path: folder.Path, Include: folder.Include.Lines(), Ignore: folder.Ignore.Lines(),
	}, out)
}

// passOn has the owner of the source answer.
func (s *Sources) passOn(ctx context.Context, uid, source string, req *gitcachev1.PackServiceRequest,
	out *connect.ServerStream[gitcachev1.PackServiceResponse],
) error {
	at, ok := s.Packs.Owner(ctx, uid)
	if forwarded(ctx) || !ok {
		return connect.NewError(connect.CodeUnavailable,
			fmt.Errorf("source %q: revision %q is not here, and its owner can't be reached: try again", source, req.GetRevision()))
	}
	from, err := at.PackService(ctx, req)
	if err != nil {
		return relayed(ctx, err)
	}
	defer func() { _ = from.Close() }() // the stream was read to its end, or is of no use
	for from.Receive() {
		if err := out.Send(from.Msg()); err != nil {
			return err
		}
	}
	return relayed(ctx, from.Err())
}

// relayed is an error of another replica as its own caller may see it.
func relayed(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	if said, ok := errors.AsType[*connect.Error](err); ok && connect.IsWireError(err) &&
		said.Code() != connect.CodePermissionDenied && said.Code() != connect.CodeUnauthenticated {
		return connect.NewError(said.Code(), errors.New(said.Message()))
	}
	return connect.NewError(connect.CodeUnavailable, errors.New("the replica that fetches the source does not answer: try again"))
}

// sendPacked sends the artifact of a folder at a commit.
func (s *Sources) sendPacked(ctx context.Context, q origin.Query, out *connect.ServerStream[gitcachev1.PackServiceResponse]) error {
	answers, err := s.Packs.Origin.Resolve(ctx, []origin.Query{q}, forwarded(ctx))
	if err != nil {
		return connect.NewError(connect.CodeCanceled, err)
	}
	answer := answers[0]
	if answer.Err != nil {
		return connect.NewError(packCode(answer.Err.Reason), answer.Err)
	}
	if answer.Artifact.Size > artifact.PreviewBytes {
		return connect.NewError(connect.CodeResourceExhausted, fmt.Errorf("source %q at %.8s, folder %q: it has %d MiB as a tar, and at most %d pass to an agent for a comparison. Leave files out with spec.ignore",
			q.Source, q.Revision, q.Path, answer.Artifact.Size>>20, artifact.PreviewBytes>>20))
	}
	content, err := s.Packs.Open(ctx, answer.Artifact.Digest)
	if err != nil {
		s.Log.WarnContext(ctx, "an artifact for a comparison can't be read", "digest", answer.Artifact.Digest, "err", err)
		return connect.NewError(connect.CodeUnavailable, errors.New("the artifact can't be read right now: try again"))
	}
	defer func() { _ = content.Close() }() // the content is only read
	first := wire.Response(answers).GetResults()[0].GetResolved()
	err = out.Send(&gitcachev1.PackServiceResponse{Part: &gitcachev1.PackServiceResponse_Service{
		Service: &gitcachev1.PackedService{Revision: first.GetRevision(), Artifact: first.GetArtifact()},
	}})
	if err != nil {
		return err
	}
	return sendData(content, out)
}

func sendData(content io.Reader, out *connect.ServerStream[gitcachev1.PackServiceResponse]) error {
	piece := make([]byte, pieceBytes)
	for {
		n, err := io.ReadFull(content, piece)
		last := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !last {
			return connect.NewError(connect.CodeUnavailable, errors.New("the artifact can't be read to its end: try again"))
		}
		if n > 0 {
			if err := out.Send(&gitcachev1.PackServiceResponse{Part: &gitcachev1.PackServiceResponse_Data{Data: piece[:n]}}); err != nil {
				return err
			}
		}
		if last {
			return nil
		}
	}
}

// packCode chooses the code for a folder that can't be packed.
func packCode(r origin.Reason) connect.Code {
	switch r {
	case origin.UnknownSource, origin.PathNotFound:
		return connect.CodeNotFound
	case origin.Refused:
		return connect.CodeFailedPrecondition
	default:
		return connect.CodeUnavailable
	}
}
