package peers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"connectrpc.com/connect"

	gitcachev1 "fairlead.dev/gen/fairlead/gitcache/v1"
	"fairlead.dev/gen/fairlead/gitcache/v1/gitcachev1connect"
	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/coordination"
	"fairlead.dev/services/gitcache/internal/handoff"
	"fairlead.dev/services/gitcache/internal/rpc/wire"
	"fairlead.dev/services/gitcache/internal/standby"
)

const (
	// copyIdle is how long a copy may bring nothing.
	copyIdle = 30 * time.Second
	// maxManifestBytes bounds one message of a copy: the manifest of a source with many artifacts.
	maxManifestBytes = 32 << 20
	// maxPackBytes bounds one pack of a copy: what upkeep makes of many fetches of 4 GiB each.
	maxPackBytes = 64 << 30
	// takeTime bounds the offer of a source to a peer.
	takeTime = 10 * time.Second
)

func (p *Peers) handoffs(m coordination.Member) gitcachev1connect.HandoffServiceClient {
	return gitcachev1connect.NewHandoffServiceClient(p.HTTP(m), m.URL, connect.WithReadMaxBytes(maxManifestBytes))
}

// Copy begins to read what a peer has of a source. The caller closes it.
func (p *Peers) Copy(ctx context.Context, from coordination.Member, r standby.Request) (standby.Incoming, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	in := &incoming{cancel: cancel}
	stream, err := p.handoffs(from).CopyMirror(ctx, wire.CopyRequest(r))
	if err != nil {
		cancel(nil)
		return nil, fmt.Errorf("copy mirror: %w", err)
	}
	in.stream = stream
	m, err := in.receive()
	if errors.Is(err, io.EOF) {
		err = errors.New("it says nothing")
	}
	if err == nil {
		in.manifest, err = wire.Manifest(m.GetManifest())
	}
	if connect.CodeOf(err) == connect.CodeNotFound {
		err = standby.ErrNothing
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("copy mirror: %w", err), in.Close())
	}
	return in, nil
}

// incoming is a copy that comes.
type incoming struct {
	cancel   context.CancelCauseFunc
	stream   *connect.ServerStreamForClient[gitcachev1.CopyMirrorResponse]
	manifest standby.Manifest
}

var errIdle = fmt.Errorf("nothing came for %s", copyIdle)

// receive reads the next message. A peer that hangs does not hold the copy up for ever.
func (in *incoming) receive() (*gitcachev1.CopyMirrorResponse, error) {
	idle := time.AfterFunc(copyIdle, func() { in.cancel(errIdle) })
	defer idle.Stop()
	if in.stream.Receive() {
		return in.stream.Msg(), nil
	}
	if err := in.stream.Err(); err != nil {
		return nil, err
	}
	return nil, io.EOF
}

// Manifest is what the peer has.
func (in *incoming) Manifest() standby.Manifest { return in.manifest }

// Next returns the next pack, to be read to its end.
func (in *incoming) Next() (string, io.Reader, error) {
	m, err := in.receive()
	if err != nil {
		return "", nil, err
	}
	first := m.GetPiece()
	if first == nil {
		return "", nil, errors.New("copy mirror: two manifests")
	}
	return first.GetPack(), &pieces{in: in, pack: first.GetPack(), data: first.GetData(), last: first.GetLast(), left: maxPackBytes}, nil
}

// Close ends the copy.
func (in *incoming) Close() error {
	in.cancel(nil)
	_ = in.stream.Close() // the packs that were needed have come, or the error is known
	return nil
}

// pieces reads one pack.
type pieces struct {
	in   *incoming
	pack string
	data []byte
	last bool
	left int64 // of what a pack may have
}

func (p *pieces) Read(b []byte) (int, error) {
	for len(p.data) == 0 {
		if p.last {
			return 0, io.EOF
		}
		m, err := p.in.receive()
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return 0, err
		}
		if m.GetPiece().GetPack() != p.pack {
			return 0, fmt.Errorf("pack %s ends in the middle", p.pack)
		}
		p.data, p.last = m.GetPiece().GetData(), m.GetPiece().GetLast()
	}
	n := copy(b, p.data)
	p.data = p.data[n:]
	if p.left -= int64(n); p.left < 0 {
		return n, fmt.Errorf("pack %s is over the limit of %d bytes", p.pack, int64(maxPackBytes))
	}
	return n, nil
}

// OpenAt opens an artifact at one peer.
func (p *Peers) OpenAt(ctx context.Context, from coordination.Member, d artifact.Digest) (io.ReadCloser, error) {
	return artifact.Fetch(ctx, p.HTTP(from), from.URL, d, 0)
}

// Offer tells a peer to take a source, or to get ready for it.
func (p *Peers) Offer(ctx context.Context, to coordination.Member, o handoff.Offer) error {
	ctx, cancel := context.WithTimeout(ctx, takeTime)
	defer cancel()
	_, err := p.handoffs(to).TakeSource(ctx, wire.TakeRequest(o))
	switch {
	case err == nil:
		return nil
	case connect.CodeOf(err) == connect.CodeFailedPrecondition:
		return errors.Join(handoff.ErrCold, err)
	default:
		return fmt.Errorf("offer source: %w", err)
	}
}
