// Package recording keeps what people saw of shells in pods. Tunnels send it in pieces while it is shown, so that what
// was sent is there whatever becomes of the tunnel. Each piece is sealed by a key of the hub secret, bound to its
// recording and its place in it.
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
	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/audit"
	"fairlead.dev/services/console/internal/authz"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/outage"
	"fairlead.dev/services/console/internal/store"
	"fairlead.dev/services/console/internal/store/audittrail"
	"fairlead.dev/services/console/internal/store/recordings"
)

const (
	// MaxBytes bounds one recording: an hour of a busy screen.
	MaxBytes = 64 << 20
	// partPieces is how many pieces one part of a recording has at most. A piece has a megabyte at most, and mostly
	// some KB.
	partPieces, partBytes = 64, 2 << 20
	// trimEvery is how often it is looked for recordings that are too old or too many.
	trimEvery = time.Minute
	// leastDays is how long recordings are kept anyhow, as the audit trail is: nobody pushes out what they have just
	// done.
	leastDays = 7
	// personShare is the part of the room for all recordings that the young ones of one person may take, and headroom
	// the part that is kept free by removing older ones.
	personShare, headroom = 8, 16
	// cutAfter is how long nothing has come for a recording without an end when it is shown as cut. A tunnel that
	// records sends something every 10 s, and tries for 20 s to send a piece.
	cutAfter = time.Minute
	// idleAfter is how long nothing has come for a recording without an end when it may be removed. Tunnels of earlier
	// versions send nothing while a shell waits for its person.
	idleAfter = 24 * time.Hour

	defaultPageSize, maxPageSize = 100, 1000
	// maxLooks is how many times maxPageSize rows are looked through for one page: a caller who sees few of them gets
	// the rest with the next page.
	maxLooks = 10
)

// Deps are what an Archive needs.
type Deps struct {
	Store    *store.Store
	Rights   *authz.Rules
	Secret   *hubsecret.File
	Accesses *audit.Accesses
	Log      *slog.Logger
	// Days and Bytes bound all recordings.
	Days  int
	Bytes int64
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

// Archive keeps recordings.
type Archive struct {
	Deps

	batch    batch
	trimming chan struct{} // full while a call removes recordings; a channel, since the wait for it ends with the context
}

// New returns an archive of recordings.
func New(d Deps) *Archive { return &Archive{Deps: d, trimming: make(chan struct{}, 1)} }

func (k *Archive) now() time.Time {
	if k.Now == nil {
		return time.Now()
	}
	return k.Now()
}

// bounds are those of now.
func (k *Archive) bounds() recordings.Bounds {
	now := k.now()
	return recordings.Bounds{
		One: MaxBytes, Person: k.Bytes / personShare, All: k.Bytes,
		Young: now.AddDate(0, 0, -min(leastDays, k.Days)), Idle: now.Add(-idleAfter),
	}
}

// contextOf binds a sealed piece to its place.
func contextOf(id string, sequence int64) []byte { return fmt.Appendf(nil, "%s/%d", id, sequence) }

// Begin makes an empty recording.
func (k *Archive) Begin(ctx context.Context, r recordings.Recording) error {
	if r.Begin.IsZero() {
		r.Begin = k.now()
	}
	return k.refusal(r.ID, r.Subject, k.withRoom(ctx, func() error { return k.Store.BeginRecording(ctx, r, k.bounds()) }))
}

// Append adds a piece to a recording.
func (k *Archive) Append(ctx context.Context, id string, sequence int64, data []byte, end bool, incomplete string) error {
	p := recordings.RecordingPiece{ID: id, Piece: recordings.Piece{Sequence: sequence}, Bytes: int64(len(data)), End: end, Incomplete: incomplete}
	if len(data) > 0 {
		var err error
		if p.Data, err = k.Secret.Seal(hubsecret.Recordings, data, contextOf(id, sequence)); err != nil {
			return err
		}
	}
	return k.refusal(id, "this person", k.withRoom(ctx, func() error {
		return k.batch.append(ctx, p, func(ctx context.Context, pieces []recordings.RecordingPiece) ([]error, error) {
			return k.Store.AppendRecordings(ctx, pieces, k.bounds())
		})
	}))
}

// withRoom removes recordings when there is no room, and tries again. While another call removes them, this one waits
// for it: a shell that has to be recorded is refused for good when there is no room. write is over when the wait
// begins, so nothing that the other call needs is held.
func (k *Archive) withRoom(ctx context.Context, write func() error) error {
	if err := write(); !errors.Is(err, recordings.ErrAllFull) {
		return err
	}
	if err := k.beginTrim(ctx); err != nil {
		return fmt.Errorf("wait for room for a recording: %w", err)
	}
	defer k.endTrim()
	if err := write(); !errors.Is(err, recordings.ErrAllFull) { // the other call has made room
		return err
	}
	if _, err := k.trim(ctx); err != nil {
		return err
	}
	return write() // also if nothing was removed here: another console may have been first
}

// beginTrim waits until no other call removes recordings.
func (k *Archive) beginTrim(ctx context.Context) error {
	select {
	case k.trimming <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (k *Archive) endTrim() { <-k.trimming }

// refusal is what keeps a recording from growing in words.
func (k *Archive) refusal(id, subject string, err error) error {
	switch {
	case errors.Is(err, store.ErrNotFound):
		return refusal.New(refusal.NotFound, "recording %q does not exist", id)
	case errors.Is(err, recordings.ErrFull):
		return refusal.New(refusal.Precondition, "recording %q is full: it has %d MiB", id, MaxBytes>>20)
	case errors.Is(err, recordings.ErrPersonFull):
		return refusal.New(refusal.Exhausted, "recordings of %s of the last %d days take %d MiB, which is all that one person may have. "+
			"An administrator can raise --recording-max-bytes of the console: an eighth of it is for one person",
			subject, min(leastDays, k.Days), k.Bytes/personShare>>20)
	case errors.Is(err, recordings.ErrAllFull):
		return refusal.New(refusal.Exhausted, "recordings take all %d MiB of --recording-max-bytes of the console, and those of the last %d days are not removed for others. "+
			"An administrator can raise it", k.Bytes>>20, min(leastDays, k.Days))
	}
	return err
}

// sees tells whether the caller may view a recording. To be the recorded person gives no right to view it.
func sees(judge authz.Judge, who platform.Identity, r recordings.Recording) bool {
	return judge.Allows(who, access.View, access.Target{Kind: access.Recording, Name: r.ID, Cluster: r.Cluster})
}

// List returns a page of the recordings that the caller may view, the newest first, and the token of the next one.
func (k *Archive) List(ctx context.Context, who platform.Identity, cluster, subject string, size int,
	before string,
) (out []recordings.Recording, next string, err error) {
	size = min(cmp.Or(size, defaultPageSize), maxPageSize)
	judge, err := k.Rights.Judge(ctx)
	if err != nil {
		return nil, "", err
	}
	for range maxLooks {
		var rows []recordings.Recording
		err := k.Store.Read(ctx, func(ctx context.Context, v store.View) (err error) {
			rows, err = v.Recordings(ctx, cluster, subject, before, maxPageSize)
			return err
		})
		if err != nil {
			return nil, "", err
		}
		for _, r := range rows {
			shown := sees(judge, who, r)
			if shown && len(out) == size {
				return out, before, nil
			}
			if before = r.ID; shown {
				out = append(out, k.withCut(r))
			}
		}
		if len(rows) < maxPageSize {
			return out, "", nil
		}
	}
	return out, before, nil
}

// Read returns a part of a recording behind a sequence, and the sequence of its last piece; 0: there is nothing more.
func (k *Archive) Read(ctx context.Context, by catalog.By, id string, after int64) (r recordings.Recording, data []byte, next int64, err error) {
	judge, err := k.Rights.Judge(ctx)
	if err != nil {
		return r, nil, 0, err
	}
	var pieces []recordings.Piece
	err = k.Store.Read(ctx, func(ctx context.Context, v store.View) (err error) {
		if r, err = v.Recording(ctx, id); err != nil {
			return err
		}
		pieces, err = v.Pieces(ctx, id, after, partPieces)
		return err
	})
	if errors.Is(err, store.ErrNotFound) || err == nil && !sees(judge, by.Identity, r) {
		return recordings.Recording{}, nil, 0, refusal.New(refusal.NotFound,
			"recording %q does not exist, or is none that you may view: that needs a role that names Recording. %s", id, access.Help)
	}
	if err != nil {
		return r, nil, 0, err
	}
	for _, p := range pieces {
		text, err := k.Secret.Open(hubsecret.Recordings, p.Data, contextOf(id, p.Sequence))
		if errors.Is(err, hubsecret.ErrSealed) {
			return r, nil, 0, refusal.New(refusal.Precondition,
				"recording %q can't be read: %v. Put the earlier hub secret back as a further line of the file, see docs/operate/rotate.md", id, err)
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
	return k.withCut(r), data, next, nil
}

// withCut gives a recording of which its tunnel says nothing any more an end, and says why. Nothing of that is stored:
// a tunnel that reaches the console again goes on.
func (k *Archive) withCut(r recordings.Recording) recordings.Recording {
	if !r.End.IsZero() || k.now().Sub(r.Update) < cutAfter {
		return r
	}
	r.End = r.Update
	const why = "it was cut: its tunnel was killed or lost the console, and what was shown in the last half second may be missing"
	if r.Incomplete != "" {
		r.Incomplete += "; "
	}
	r.Incomplete += why
	return r
}

// trim removes recordings that are too old or too many. The caller has begun it.
func (k *Archive) trim(ctx context.Context) (removed int, err error) {
	removed, err = k.Store.TrimRecordings(ctx, k.now().AddDate(0, 0, -k.Days), k.Bytes-k.Bytes/headroom, k.bounds(), k.removed)
	if removed > 0 {
		k.Log.InfoContext(ctx, "recordings removed", "recordings", removed)
	}
	return removed, err
}

// removed is the entry in the audit trail of a recording that was removed for room.
func (k *Archive) removed(at time.Time, r recordings.Recording) audittrail.Event {
	return audit.Event(audit.Console(), at, audit.Act{
		Action: "recording.removed", Resource: access.Recording, Name: r.ID, Cluster: r.Cluster, Reason: fmt.Sprintf(
			"%s of %s in %s/%s, begun %s, %d bytes: recordings are at the bound of --recording-max-bytes, and those of this person that are older than %d days took the most",
			r.Verb, r.Subject, r.Namespace, r.Pod, r.Begin.UTC().Format(time.RFC3339), r.Bytes, min(leastDays, k.Days)),
	})
}

// Run removes recordings that are too old or too many, until the context ends.
func (k *Archive) Run(ctx context.Context) error {
	ticker := time.NewTicker(trimEvery)
	defer ticker.Stop()
	var away outage.Outage
	for {
		err := k.beginTrim(ctx)
		if err == nil {
			_, err = k.trim(ctx)
			k.endTrim()
		}
		switch {
		case err == nil:
			away.Over(ctx, k.Log, time.Now(), "recordings are bounded again")
		case ctx.Err() == nil:
			away.Failed(ctx, k.Log, time.Now(), "recordings that are too old stay for now", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}
