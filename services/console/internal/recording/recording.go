// Package recording keeps what people saw of shells in pods. Tunnels send it in pieces while it is shown, so that what was sent is there whatever becomes of
// the tunnel. Each piece is sealed by a key of the hub secret, bound to its recording and its place in it.
package recording

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"fairlead.dev/platform/access"
	"fairlead.dev/platform/hubsecret"
	platform "fairlead.dev/platform/identity"
	"fairlead.dev/services/console/internal/audit"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/outage"
	"fairlead.dev/services/console/internal/rights"
	"fairlead.dev/services/console/internal/store"
)

const (
	// MaxBytes bounds one recording: an hour of a busy screen.
	MaxBytes = 64 << 20
	// partPieces is how many pieces one part of a recording has at most. A piece has a megabyte at most, and mostly some KB.
	partPieces, partBytes = 64, 2 << 20
	// trimEvery is how often it is looked for recordings that are too old or too many.
	trimEvery = time.Minute

	defaultPageSize, maxPageSize = 100, 1000
)

// Keeper keeps recordings.
type Keeper struct {
	Store    *store.Store
	Rights   *rights.Keeper
	Secret   *hubsecret.File
	Accesses *audit.Accesses
	Log      *slog.Logger
	// Days and Bytes bound all recordings.
	Days  int
	Bytes int64
}

// contextOf binds a sealed piece to its place.
func contextOf(id string, sequence int64) []byte { return fmt.Appendf(nil, "%s/%d", id, sequence) }

// Begin makes an empty recording.
func (k *Keeper) Begin(ctx context.Context, r store.Recording) error {
	if r.Begin.IsZero() {
		r.Begin = time.Now()
	}
	return k.Store.BeginRecording(ctx, r)
}

// Append adds a piece to a recording.
func (k *Keeper) Append(ctx context.Context, id string, sequence int64, data []byte, end bool, incomplete string) error {
	p := store.Piece{Sequence: sequence}
	if len(data) > 0 {
		var err error
		if p.Data, err = k.Secret.Seal(hubsecret.Recordings, data, contextOf(id, sequence)); err != nil {
			return err
		}
	}
	err := k.Store.AppendRecording(ctx, id, p, int64(len(data)), MaxBytes, end, incomplete)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return catalog.Refuse(catalog.NotFound, "recording %q does not exist", id)
	case errors.Is(err, store.ErrFull):
		return catalog.Refuse(catalog.Precondition, "recording %q is full: it has %d MiB", id, MaxBytes>>20)
	}
	return err
}

// sees tells whether the caller may view a recording. Nobody may because it is their own.
func (k *Keeper) sees(ctx context.Context, who platform.Identity, r store.Recording) (bool, error) {
	decision, err := k.Rights.Decide(ctx, who, access.View, access.Target{Kind: access.Recording, Name: r.ID, Cluster: r.Cluster})
	return decision.Allowed, err
}

// List returns a page of the recordings that the caller may view, the newest first, and the token of the next one.
func (k *Keeper) List(ctx context.Context, who platform.Identity, cluster, subject string, size int, before string) (out []store.Recording, next string, err error) {
	size = min(cmp.Or(size, defaultPageSize), maxPageSize)
	for {
		var rows []store.Recording
		err := k.Store.Read(ctx, func(ctx context.Context, v store.View) (err error) {
			rows, err = v.Recordings(ctx, cluster, subject, before, maxPageSize)
			return err
		})
		if err != nil {
			return nil, "", err
		}
		for _, r := range rows {
			sees, err := k.sees(ctx, who, r)
			if err != nil {
				return nil, "", err
			}
			if sees && len(out) == size {
				return out, before, nil
			}
			if before = r.ID; sees {
				out = append(out, r)
			}
		}
		if len(rows) < maxPageSize {
			return out, "", nil
		}
	}
}

// Read returns a part of a recording behind a sequence, and the sequence of its last piece; 0: there is nothing more.
func (k *Keeper) Read(ctx context.Context, by catalog.By, id string, after int64) (r store.Recording, data []byte, next int64, err error) {
	var pieces []store.Piece
	err = k.Store.Read(ctx, func(ctx context.Context, v store.View) (err error) {
		if r, err = v.Recording(ctx, id); err != nil {
			return err
		}
		pieces, err = v.Pieces(ctx, id, after, partPieces)
		return err
	})
	sees := err == nil
	if sees {
		sees, err = k.sees(ctx, by.Identity, r)
	}
	if errors.Is(err, store.ErrNotFound) || err == nil && !sees {
		return store.Recording{}, nil, 0, catalog.Refuse(catalog.NotFound, "recording %q does not exist, or is none that you may view: that needs a role that names Recording. %s", id, access.Help)
	}
	if err != nil {
		return r, nil, 0, err
	}
	for _, p := range pieces {
		text, err := k.Secret.Open(hubsecret.Recordings, p.Data, contextOf(id, p.Sequence))
		if errors.Is(err, hubsecret.ErrSealed) {
			return r, nil, 0, catalog.Refuse(catalog.Precondition, "recording %q can't be read: %v. Put the earlier hub secret back as a further line of the file, see docs/operate/rotate.md", id, err)
		}
		if err != nil {
			return r, nil, 0, err
		}
		data, next = append(data, text...), p.Sequence
		if len(data) >= partBytes {
			break
		}
	}
	k.Accesses.Read(audit.Who{Identity: by.Identity, Remote: by.Remote, TraceID: by.TraceID}, audit.Act{
		Action: "recording.read", Resource: access.Recording, Name: id, Cluster: r.Cluster, Reason: fmt.Sprintf("%s of %s", r.Verb, r.Subject),
	}, after <= 0)
	return r, data, next, nil
}

// Run removes recordings that are too old or too many, until the context ends.
func (k *Keeper) Run(ctx context.Context) error {
	ticker := time.NewTicker(trimEvery)
	defer ticker.Stop()
	var away outage.Outage
	for {
		n, err := k.Store.TrimRecordings(ctx, time.Now().AddDate(0, 0, -k.Days), k.Bytes)
		switch {
		case err == nil:
			away.Over(ctx, k.Log, time.Now(), "recordings are bounded again")
		case ctx.Err() == nil:
			away.Failed(ctx, k.Log, time.Now(), "recordings that are too old stay for now", err)
		}
		if n > 0 {
			k.Log.InfoContext(ctx, "recordings removed", "recordings", n)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}
