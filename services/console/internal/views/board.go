// Package views keeps what agents see in their clusters. The database has the views, outside of the change log: one row
// per cluster, which a push changes in a transaction, so that a replica that dies takes no view with it. Each console
// keeps all views in memory for lists, and reads what other consoles wrote by the numbers of the writes.
package views

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
	"unique"

	"google.golang.org/protobuf/proto"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/retry"
	"fairlead.dev/services/console/internal/index"
	"fairlead.dev/services/console/internal/store"
	"fairlead.dev/services/console/internal/store/shown"
)

const (
	// lookEvery is how often the views that other consoles wrote are read.
	lookEvery = 500 * time.Millisecond
	// pruneEvery is how often the views of clusters that are gone are dropped from memory.
	pruneEvery = time.Minute
	// chunk is how many views are read at once.
	chunk = 500
)

// Rights say what a caller sees.
type Rights interface {
	Viewer(ctx context.Context, fresh bool) (index.Sees, error)
	// Reader tells at which clusters the caller may read the Kubernetes API; nil: at all.
	Reader(ctx context.Context) (func(cluster string) bool, error)
}

// Deps is what a Board works with.
type Deps struct {
	Store    *store.Store
	Clusters *index.Index
	Rights   Rights
	Log      *slog.Logger
}

// Board is the views of all clusters in memory. A Board is safe for concurrent use.
type Board struct {
	Deps

	loaded chan struct{} // closed by Run's goroutine when all views that there are were read
	curves curves
	names  nameTable

	mu      sync.RWMutex // guards what follows
	number  int64        // all writes up to this one are in views
	views   map[string]*view
	changed chan struct{} // closed and replaced when a view changes
}

// view is one in memory. Immutable.
type view struct {
	term, sequence uint64
	number         int64
	received       time.Time
	figures        figures
	rows           map[string]bool // sections that have rows, or something to say of them
	whole          string          // sections whose figures are of now, a space around each
	reasons        []reason
	data           []byte
	rejection      rejection
}

// rejection is why the hub keeps nothing of what an agent pushes; the zero value: it does.
type rejection struct {
	why   string
	since time.Time
}

// of is what is known of a cluster, with mu held.
func (b *Board) of(c index.Cluster) seen {
	v := b.views[c.UID()]
	switch {
	case v == nil:
		return seen{Cluster: c}
	case v.received.IsZero(): // each push was refused
		return seen{Cluster: c, rejection: v.rejection}
	}
	return seen{Cluster: c, view: v, rejection: v.rejection}
}

// decode returns the whole view.
func (v *view) decode() (*deliveryv1.PushViewRequest, error) {
	out := &deliveryv1.PushViewRequest{}
	if err := proto.Unmarshal(v.data, out); err != nil {
		return nil, fmt.Errorf("decode view: %w", err)
	}
	return out, nil
}

// New returns an empty board; Run reads the views.
func New(d Deps) *Board {
	return &Board{Deps: d, loaded: make(chan struct{}), views: map[string]*view{}, changed: make(chan struct{}), curves: curves{of: map[string]*curve{}}}
}

// Loaded returns a channel that is closed when all views that there were at the start have been read.
func (b *Board) Loaded() <-chan struct{} { return b.loaded }

// Moved returns a channel that is closed when a view changes. Changes of clusters themselves close the channel of the
// board of clusters.
func (b *Board) Moved() <-chan struct{} {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.changed
}

// Run keeps the board up to date until ctx ends.
func (b *Board) Run(ctx context.Context) error {
	var pruned time.Time
	failed := false
	for {
		err := b.catchUp(ctx)
		if err == nil && time.Since(pruned) > pruneEvery {
			if err = b.prune(ctx); err == nil {
				pruned = time.Now()
			}
		}
		if err != nil && !failed && ctx.Err() == nil {
			b.Log.WarnContext(ctx, "views of clusters may be those of before", "err", err)
		}
		failed = err != nil
		wait := lookEvery
		if !b.Store.Shared() && !failed {
			wait = pruneEvery // no other console writes
		}
		if !retry.Sleep(ctx, wait) {
			return nil
		}
	}
}

// catchUp takes in what was written since the last look.
func (b *Board) catchUp(ctx context.Context) error {
	for {
		b.mu.RLock()
		after := b.number
		b.mu.RUnlock()
		var list []shown.ClusterView
		err := b.Store.Read(ctx, func(ctx context.Context, v store.View) (err error) {
			list, err = v.ClusterViews(ctx, after, chunk)
			return err
		})
		if err != nil {
			return err
		}
		if err := b.put(list, true); err != nil {
			return err
		}
		if len(list) < chunk {
			if !b.isLoaded() {
				close(b.loaded)
			}
			return nil
		}
	}
}

func (b *Board) isLoaded() bool {
	select {
	case <-b.loaded:
		return true
	default:
		return false
	}
}

// put takes views in. inOrder: they are the next ones of all that were written, and not some of them.
func (b *Board) put(list []shown.ClusterView, inOrder bool) error {
	made := make([]*view, len(list))
	for i, one := range list {
		decoded := &deliveryv1.PushViewRequest{}
		if err := proto.Unmarshal(one.Data, decoded); err != nil {
			return fmt.Errorf("decode the view of cluster %s: %w", one.Cluster, err)
		}
		v := &view{
			term: one.Term, sequence: one.Sequence, number: one.Number, received: one.Receive, data: one.Data,
			rows: map[string]bool{}, rejection: rejection{one.Refusal, one.RefuseTime},
		}
		counted := map[string]int64{}
		var whole strings.Builder // the names of whole sections, each between spaces
		whole.WriteString(" ")
		for _, s := range decoded.GetSections() {
			for name, n := range s.GetFigures() {
				counted[s.GetName()+"."+name] = n
			}
			sampled := s.GetName() + ".sampled"
			delete(counted, sampled) // this console says it, and no agent
			if s.GetSample() > 1 && len(s.GetFigures()) > 0 {
				counted[sampled] = 1
			}
			if s.GetState() == deliveryv1.SectionState_SECTION_STATE_WHOLE {
				whole.WriteString(s.GetName() + " ")
			}
			if s.GetName() == warnings {
				v.reasons = countReasons(s)
			}
			if len(s.GetRows()) > 0 || s.GetWithheld() > 0 || s.GetReason() != "" || s.GetState() != deliveryv1.SectionState_SECTION_STATE_WHOLE {
				v.rows[unique.Make(s.GetName()).Value()] = true
			}
		}
		v.figures = b.names.figures(counted)
		v.whole = unique.Make(whole.String()).Value()
		made[i] = v
	}
	now, begun := time.Now(), b.isLoaded() // the views that there are at the start are of then
	for i, v := range b.replace(list, made, inOrder) {
		if v != nil && begun && v.rejection.why == "" {
			b.curves.note(list[i].Cluster, now, pointOf(v))
		}
	}
	return nil
}

// replace puts views in the place of older ones, and returns those of made that were newer, and nil for the others.
func (b *Board) replace(list []shown.ClusterView, made []*view, inOrder bool) []*view {
	b.mu.Lock()
	defer b.mu.Unlock()
	changed := false
	for i, v := range made {
		if inOrder {
			b.number = max(b.number, v.number)
		}
		if was := b.views[list[i].Cluster]; was != nil && was.number >= v.number {
			made[i] = nil
			continue
		}
		b.views[list[i].Cluster], changed = v, true
	}
	if changed {
		close(b.changed)
		b.changed = make(chan struct{})
	}
	return made
}

// countReasons adds the groups of a section up by their reasons.
func countReasons(s *deliveryv1.ViewSection) (out []reason) {
	for _, r := range s.GetRows() {
		if r.GetReason() == "" {
			continue
		}
		figure, n := unique.Make(reasonPrefix+r.GetReason()).Value(), max(1, r.GetFigures()["hour"])
		if i := slices.IndexFunc(out, func(one reason) bool { return one.figure == figure }); i >= 0 {
			out[i].count += n
		} else {
			out = append(out, reason{figure, n})
		}
	}
	return slices.Clip(out)
}

// prune drops the views of clusters that are gone.
func (b *Board) prune(ctx context.Context) error {
	var uids []string
	err := b.Store.Read(ctx, func(ctx context.Context, v store.View) (err error) {
		uids, err = v.ViewedClusters(ctx)
		return err
	})
	if err != nil {
		return err
	}
	there := make(map[string]bool, len(uids))
	for _, uid := range uids {
		there[uid] = true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for uid, v := range b.views {
		if !there[uid] && v.number <= b.number { // a later one came after the look
			delete(b.views, uid)
		}
	}
	for uid := range b.views {
		there[uid] = true
	}
	b.curves.forget(there)
	return nil
}

// Record keeps pushes, all in one transaction, and returns what agents are to be told.
func (b *Board) Record(ctx context.Context, pushes []*consolev1.ClusterPush) ([]*deliveryv1.PushViewResponse, error) {
	answers := make([]*deliveryv1.PushViewResponse, len(pushes))
	var uids []string
	known := map[string]string{} // uids by name
	err := b.Store.Read(ctx, func(ctx context.Context, v store.View) error {
		names := make([]string, len(pushes))
		for i, p := range pushes {
			names[i] = p.GetCluster()
		}
		found, err := v.Named(ctx, store.KindCluster, names)
		for name, r := range found {
			known[name] = r.UID
			uids = append(uids, r.UID)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	written, err := b.Store.ChangeViews(ctx, uids, func(current map[string]shown.ClusterView) (changed []shown.ClusterView, err error) {
		next, refused := map[string]*deliveryv1.PushViewRequest{}, map[string]string{}
		for i, p := range pushes {
			uid := known[p.GetCluster()]
			if uid == "" {
				answers[i] = &deliveryv1.PushViewResponse{} // the cluster is gone
				continue
			}
			if why := p.GetRefused(); why != "" { // by the distributor
				answers[i], refused[uid] = &deliveryv1.PushViewResponse{Refused: why}, why
				continue
			}
			now := next[uid]
			if now == nil {
				now = &deliveryv1.PushViewRequest{}
				if row, ok := current[uid]; ok {
					if err := proto.Unmarshal(row.Data, now); err != nil {
						return nil, fmt.Errorf("decode view: %w", err)
					}
				}
			}
			after, answer := merge(now, p.GetPush())
			if answers[i] = answer; after != nil {
				next[uid] = after
			} else if answer.GetRefused() != "" {
				refused[uid] = answer.GetRefused()
			}
		}
		for uid, view := range next {
			data, err := proto.Marshal(view)
			if err != nil {
				return nil, fmt.Errorf("encode view: %w", err)
			}
			changed = append(changed, shown.ClusterView{Cluster: uid, Term: view.GetTerm(), Sequence: view.GetSequence(), Data: data})
		}
		for uid, why := range refused {
			row := current[uid]
			if next[uid] != nil || row.Refusal != "" { // the agent tries again and again: since when is what counts
				continue
			}
			if row.Cluster, row.Refusal = uid, why; row.Data == nil {
				row.Data = []byte{}
			}
			changed = append(changed, row)
		}
		return changed, nil
	})
	if err != nil {
		return nil, err
	}
	return answers, b.put(written, false)
}

// Lost returns the clusters whose agents say of a view that the console has it, and it does not: the database was put
// back to an earlier state.
func (b *Board) Lost(seen []*consolev1.ClusterSeen) (clusters []string) {
	uids := map[string]string{}
	for _, s := range seen {
		if s.GetView() != nil {
			uids[s.GetCluster()] = ""
		}
	}
	if len(uids) == 0 || !b.isLoaded() || !b.Clusters.UIDs(uids) {
		return nil
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, s := range seen {
		uid := uids[s.GetCluster()]
		if s.GetView() == nil || uid == "" {
			continue
		}
		has := b.views[uid]
		if has == nil || has.term < s.GetView().GetTerm() || has.term == s.GetView().GetTerm() && has.sequence < s.GetView().GetSequence() {
			clusters = append(clusters, s.GetCluster())
		}
	}
	return clusters
}
