package catalog

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protodelim"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/durable"
)

// The file is a recorded stream: a line that names the format, the sha256 of the rest, and the rest:
// WatchResponses, each after its length, the last one a SnapshotEnd with the resume token.
const (
	magic = "fairlead catalog 1\n"
	// batch is the number of changes per message.
	batch = 256
	// maxMessage bounds one message of the file, in bytes.
	maxMessage = 64 << 20
)

var errSnapshot = errors.New("catalog snapshot is damaged")

type snapshot struct {
	state *state
	kinds []consolev1.Kind
	token string
	saved time.Time
}

func load(file string) (snapshot, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return snapshot{}, fmt.Errorf("read catalog snapshot: %w", err)
	}
	info, err := os.Stat(file)
	if err != nil {
		return snapshot{}, fmt.Errorf("read catalog snapshot: %w", err)
	}
	snap, err := decode(b)
	snap.saved = info.ModTime()
	return snap, err
}

func decode(b []byte) (snapshot, error) {
	b, ok := bytes.CutPrefix(b, []byte(magic))
	if !ok || len(b) < sha256.Size {
		return snapshot{}, fmt.Errorf("%w: not a snapshot of this format", errSnapshot)
	}
	sum, b := b[:sha256.Size], b[sha256.Size:]
	if got := sha256.Sum256(b); !bytes.Equal(got[:], sum) {
		return snapshot{}, fmt.Errorf("%w: wrong checksum", errSnapshot)
	}
	return replay(bytes.NewReader(b))
}

// replay reads messages up to the end of the snapshot.
func replay(r *bytes.Reader) (snapshot, error) {
	snap := snapshot{state: newState()}
	opts := protodelim.UnmarshalOptions{MaxSize: maxMessage}
	for {
		var m consolev1.WatchResponse
		if err := opts.UnmarshalFrom(r, &m); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return snapshot{}, fmt.Errorf("%w: %w", errSnapshot, err)
		}
		if m.GetSnapshotBegin() != nil {
			snap.kinds = m.GetSnapshotBegin().GetKinds()
		}
		for _, ch := range m.GetChanges().GetChanges() {
			snap.state.apply(ch)
		}
		if m.GetSnapshotEnd() != nil {
			snap.token = m.GetResumeToken()
			return snap, nil
		}
	}
}

func encode(kinds []consolev1.Kind, changes []*consolev1.Change, token string) ([]byte, error) {
	var body bytes.Buffer
	begin := &consolev1.WatchResponse{Event: &consolev1.WatchResponse_SnapshotBegin{SnapshotBegin: &consolev1.SnapshotBegin{Kinds: kinds}}}
	if _, err := protodelim.MarshalTo(&body, begin); err != nil {
		return nil, err
	}
	for some := range slices.Chunk(changes, batch) {
		m := &consolev1.WatchResponse{Event: &consolev1.WatchResponse_Changes{Changes: &consolev1.Changes{Changes: some}}}
		if _, err := protodelim.MarshalTo(&body, m); err != nil {
			return nil, err
		}
	}
	end := &consolev1.WatchResponse{Event: &consolev1.WatchResponse_SnapshotEnd{SnapshotEnd: &consolev1.SnapshotEnd{}}, ResumeToken: token}
	if _, err := protodelim.MarshalTo(&body, end); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(body.Bytes())
	return slices.Concat([]byte(magic), sum[:], body.Bytes()), nil
}

// saveLoop writes the snapshot some time after changes, and once more at the end.
func (c *Catalog) saveLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.dirty:
		}
		select {
		case <-ctx.Done():
		case <-time.After(c.timing.saveDelay):
		}
		if err := c.save(); err != nil {
			// The catalog works on without; a restart resumes from an older one.
			c.log.Warn("save catalog snapshot", "err", err)
		}
	}
}

func (c *Catalog) save() error {
	c.mu.RLock()
	changes, token, ready := c.live.changes(), c.token, c.ready
	c.mu.RUnlock()
	if !ready {
		return nil
	}
	b, err := encode(c.kinds, changes, token)
	if err != nil {
		return err
	}
	return durable.WriteFile(c.file, b, 0o600)
}
