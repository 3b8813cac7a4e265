package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"

	"connectrpc.com/connect"

	gitcachev1 "fairlead.dev/gen/fairlead/gitcache/v1"
	"fairlead.dev/services/gitcache/internal/handoff"
	"fairlead.dev/services/gitcache/internal/rpc/wire"
	"fairlead.dev/services/gitcache/internal/standby"
)

// pieceBytes of a pack go in one message.
const pieceBytes = 256 << 10

// Handoffs is HandoffService.
type Handoffs struct {
	// Ready says why this replica can't answer anything yet.
	Ready    func() error
	Sender   *standby.Sender
	Receiver *handoff.Receiver
}

// CopyMirror sends what is here of a source.
func (h *Handoffs) CopyMirror(ctx context.Context, req *gitcachev1.CopyMirrorRequest, out *connect.ServerStream[gitcachev1.CopyMirrorResponse]) error {
	manifest, packs, err := h.Sender.Open(wire.Copy(req))
	if errors.Is(err, standby.ErrNothing) {
		return connect.NewError(connect.CodeNotFound, err)
	}
	if err != nil {
		return connect.NewError(connect.CodeUnavailable, err)
	}
	defer standby.Close(packs)
	message, err := wire.ManifestMessage(manifest)
	if err != nil {
		return err
	}
	if err := out.Send(&gitcachev1.CopyMirrorResponse{Part: &gitcachev1.CopyMirrorResponse_Manifest{Manifest: message}}); err != nil {
		return err
	}
	for _, p := range packs {
		if err := send(ctx, p, out); err != nil {
			return err
		}
	}
	return nil
}

// send sends a pack in pieces. The last one may be empty.
func send(ctx context.Context, p standby.Pack, out *connect.ServerStream[gitcachev1.CopyMirrorResponse]) error {
	piece := make([]byte, pieceBytes)
	for last := false; !last; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := io.ReadFull(p.File, piece)
		last = errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !last {
			return fmt.Errorf("read pack %s: %w", p.Name, err)
		}
		err = out.Send(&gitcachev1.CopyMirrorResponse{Part: &gitcachev1.CopyMirrorResponse_Piece{
			Piece: &gitcachev1.PackPiece{Pack: p.Name, Data: piece[:n], Last: last},
		}})
		if err != nil {
			return err
		}
	}
	return nil
}

// TakeSource gets ready for a source or takes it.
func (h *Handoffs) TakeSource(ctx context.Context, req *gitcachev1.TakeSourceRequest) (*gitcachev1.TakeSourceResponse, error) {
	if err := h.Ready(); err != nil {
		return nil, connect.NewError(connect.CodeUnavailable, err)
	}
	offer, err := wire.Take(req)
	if err != nil {
		return nil, connect.NewError(connect.CodeInvalidArgument, err)
	}
	switch err := h.Receiver.Take(ctx, offer); {
	case err == nil:
		return &gitcachev1.TakeSourceResponse{}, nil
	case errors.Is(err, handoff.ErrCold):
		return nil, connect.NewError(connect.CodeFailedPrecondition, err)
	case errors.Is(err, handoff.ErrUnknown):
		return nil, connect.NewError(connect.CodeNotFound, err)
	default:
		return nil, connect.NewError(connect.CodeUnavailable, err)
	}
}
