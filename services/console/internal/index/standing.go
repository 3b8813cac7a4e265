package index

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/feed"
	"fairlead.dev/services/console/internal/query"
	"fairlead.dev/services/console/internal/store"
)

const (
	// stepsSize is how many steps are kept for standing questions; a question that is further behind is answered from
	// all rows.
	stepsSize = 4096
	// wholeEvery is how often a standing question is answered from all rows though no step concerns it: its filter may
	// name an age, rights of its caller may end at a time, and counts beside its rows change with rows of other kinds.
	wholeEvery = 30 * time.Second
	// statusEvery is how often a standing question is answered from all rows if no step tells of the statuses that it
	// shows: as often as a page asks for an answer that no stream carries. A stream asks at each of its heartbeats.
	statusEvery = 5 * time.Second
	// sharedFor is how long a page that one question found serves others while nothing changes, and sharedBehind how
	// long while something does: of a hundred streams that show the same page, a few look for it.
	sharedFor, sharedBehind = time.Second, 250 * time.Millisecond
	// maxItems and maxPages bound what questions share: some 2 KB for each service, and 10 KB for each page.
	maxItems, maxPages = 4096, 256
)

// Question asks for a page of a list, or for counts.
type Question struct {
	Kind   store.Kind
	Filter string
	// Of a list.
	Order, Token string
	Size         int
	// Count: the rows are counted by the values of fields instead.
	Count bool
	By    []string
	// OnlyChanges: only the first answer has all counts.
	OnlyChanges bool
}

// Answer is what a question gets.
type Answer struct {
	// Items are those of the page, in its order.
	Items []*Item
	Names []string
	// Next is the token of the next page; empty: this is the last one.
	Next string
	// Total is how many fit on all pages.
	Total int
	// Groups are the counts, and Changes those that became others since the last answer.
	Groups, Changes []Group
}

// step is a row that came, changed or went.
type step struct{ before, after *row }

// step keeps a step for standing questions. The caller holds mu.
func (b *Index) step(before, after *row) {
	b.index(before, after)
	if of := cmp.Or(before, after); of.kind == store.KindCluster && (before == nil || after == nil) {
		b.clusterNames = nil
	}
	b.stepped++
	b.steps = append(b.steps, step{before, after})
	if over := len(b.steps) - stepsSize; over > stepsSize {
		b.steps = slices.Clone(b.steps[over:]) // and let go of the rest
	}
}

// answers is what standing questions share.
type answers struct {
	mu    sync.Mutex            // guards what follows
	items map[string]loadedItem // by uid
	pages map[pageKey]page      // of callers that see everything
}

// loadedItem is an item and the row that it was read for.
type loadedItem struct {
	row  *row
	item *Item
}

type pageKey struct {
	kind                 store.Kind
	filter, order, token string
	size                 int
}

// page is a part of a list, and the step that it is of.
type page struct {
	nonce string
	at    int64
	time  time.Time
	found query.Page[*row]
	total int
}

// Standing is a question that is answered again and again. A Standing belongs to one goroutine.
type Standing struct {
	Question
	board *Index
	expr  *query.Expr
	order query.Order
	of    uint64
	after *query.Place

	asked  time.Time // when all rows were looked at; zero: never
	nonce  string    // of the board, up to which step
	at     int64
	page   page
	uids   map[string]bool // on the page
	groups groups
	// recounted: counts beside the rows of the page may be others since the page was found.
	recounted bool
}

// Moved returns a channel that is closed when answers may have become others.
func (b *Index) Moved() <-chan struct{} {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.moved
}

// Stale says why silence of the board means nothing; nil: it means that nothing changed.
func (b *Index) Stale() error {
	if b.Hub.Age() > staleAfter {
		return feed.ErrStale
	}
	return nil
}

// Stand reads a question.
func (b *Index) Stand(q Question) (s *Standing, err error) {
	fields := Fields(q.Kind)
	s = &Standing{Question: q, board: b}
	if s.expr, err = query.Parse(q.Filter, fields); err != nil {
		return nil, refusal.New(refusal.Invalid, "filter: %v", err)
	}
	for _, name := range q.By {
		if err := fields.Worded(name); err != nil {
			return nil, refusal.New(refusal.Invalid, "group_by: %v", err)
		}
	}
	if s.order, err = query.ParseOrder(q.Order, fields); err != nil {
		return nil, refusal.New(refusal.Invalid, "order_by: %v", err)
	}
	s.of = query.Question(string(q.Kind), q.Filter, q.Order)
	if s.after, err = query.PlaceOf(q.Token, s.of, len(s.order)); err != nil {
		return nil, refusal.New(refusal.Invalid, "page_token: %v", err)
	}
	return s, nil
}

// Answer answers the question for the caller in ctx. same: the answer is the one of the last call, and is not returned.
func (s *Standing) Answer(ctx context.Context) (answer Answer, same bool, err error) {
	first := s.asked.IsZero()
	if first {
		if err := s.board.current(ctx); err != nil {
			return answer, false, err
		}
	}
	steps, known := s.behind()
	otherRights := slices.ContainsFunc(steps, func(st step) bool { return changesRights(delta{before: st.before, after: st.after}) })
	sees, err := s.board.Viewer.Viewer(ctx, first || otherRights)
	if err != nil {
		return answer, false, err
	}
	now := s.board.Now()
	mayPass := sees != nil || s.expr.NamesAge()
	s.recounted = s.recounted || !s.Count && slices.ContainsFunc(steps, func(st step) bool { return recounts(s.Kind, st) })
	age := now.Sub(s.asked)
	whole := !known || (mayPass || s.recounted) && age > wholeEvery || sees != nil && otherRights ||
		!s.Count && stepless(s.Kind) && age > statusEvery
	if s.Count {
		return s.answerCount(steps, sees, now, whole)
	}
	if !whole && !slices.ContainsFunc(steps, func(st step) bool { return s.concerns(st, sees, now) }) {
		s.at += int64(len(steps))
		return answer, true, nil
	}
	s.find(sees, now)
	answer.Items, answer.Names, err = s.board.itemsOf(ctx, s.Kind, s.page.found.Rows, sees)
	answer.Next, answer.Total = s.nextToken(), s.page.total
	if err != nil {
		s.asked = time.Time{}
	}
	return answer, false, err
}

// IsBehind says whether something changed after what the last answer saw.
func (s *Standing) IsBehind() bool {
	s.board.mu.RLock()
	defer s.board.mu.RUnlock()
	return s.nonce != s.board.nonce || s.at < s.board.stepped
}

// behind returns the steps since the last answer. false: they are not known any more.
func (s *Standing) behind() (steps []step, known bool) {
	b := s.board
	b.mu.RLock()
	defer b.mu.RUnlock()
	behind := int(b.stepped - s.at)
	if s.asked.IsZero() || s.nonce != b.nonce || behind > len(b.steps) {
		return nil, false
	}
	return b.steps[len(b.steps)-behind:], true
}

func (s *Standing) fits(r *row, sees Sees, now time.Time) bool {
	return r != nil && s.expr.Match(r, now) && r.seenBy(sees)
}

// concerns says whether the page or its total may be others after a step.
func (s *Standing) concerns(st step, sees Sees, now time.Time) bool {
	of := st.after
	if of == nil {
		of = st.before
	}
	if of.kind != s.Kind {
		return false
	}
	was, is := s.fits(st.before, sees, now), s.fits(st.after, sees, now)
	switch {
	case s.uids[of.uid] || was != is:
		return true
	case !is:
		return false
	case s.page.found.Last == nil:
		return true // the row may come behind the last one
	}
	return s.order.Compare(query.Place{Values: s.order.Values(nil, st.after), Name: st.after.name}, *s.page.found.Last) <= 0
}

// nextToken is that of the page behind this one; empty: there is none.
func (s *Standing) nextToken() string { return s.page.found.Last.Token(s.of) }

// find looks through all rows for the page.
func (s *Standing) find(sees Sees, now time.Time) {
	key := pageKey{s.Kind, s.Filter, s.Order, s.Token, s.Size}
	p, ok := page{}, false
	if sees == nil {
		p, ok = s.sharedPage(key, now)
	}
	if !ok {
		p = page{}
		var rows []*row
		rows, p.nonce, p.at = s.board.fitting(s.Kind, s.expr)
		p.time = now
		if sees != nil {
			rows = slices.DeleteFunc(rows, func(r *row) bool { return !r.seenBy(sees) })
		}
		p.total = len(rows)
		p.found = query.PageOf(rows, s.order, s.after, catalog.Page{Size: s.Size}.Limit())
		if sees == nil {
			s.board.sharePage(key, p)
		}
	}
	s.page, s.asked, s.nonce, s.at = p, p.time, p.nonce, p.at
	s.recounted = false
	s.uids = make(map[string]bool, len(p.found.Rows))
	for _, r := range p.found.Rows {
		s.uids[r.uid] = true
	}
}

// sharedPage returns a page that another question found: the newest one, or, if this question was answered before, one
// that is hardly older and not behind that answer.
func (s *Standing) sharedPage(key pageKey, now time.Time) (page, bool) {
	b := s.board
	b.mu.RLock()
	nonce, at := b.nonce, b.stepped
	b.mu.RUnlock()
	b.answers.mu.Lock()
	defer b.answers.mu.Unlock()
	p, ok := b.answers.pages[key]
	if !ok || p.nonce != nonce || s.nonce == nonce && p.at < s.at {
		return page{}, false
	}
	age := now.Sub(p.time)
	return p, p.at == at && age < sharedFor || !s.asked.IsZero() && age < sharedBehind
}

func (b *Index) sharePage(key pageKey, p page) {
	b.answers.mu.Lock()
	defer b.answers.mu.Unlock()
	if b.answers.pages == nil || len(b.answers.pages) >= maxPages {
		b.answers.pages = map[pageKey]page{}
	}
	b.answers.pages[key] = p
}

// answerCount counts what the steps changed, or all rows.
func (s *Standing) answerCount(steps []step, sees Sees, now time.Time, whole bool) (answer Answer, same bool, err error) {
	first := s.asked.IsZero()
	if whole {
		err = s.countAll(sees, now)
	} else {
		err = s.countSteps(steps, sees, now)
	}
	if err != nil {
		return answer, false, err
	}
	answer.Changes = s.groups.answerChanges()
	if first || !s.OnlyChanges {
		answer.Groups = s.groups.answerAll()
	}
	return answer, !first && len(answer.Changes) == 0, nil
}

func (s *Standing) countAll(sees Sees, now time.Time) error {
	rows, nonce, at := s.board.fitting(s.Kind, s.expr)
	counted := groups{}
	for _, r := range rows {
		if !r.seenBy(sees) {
			continue
		}
		if err := counted.add(r, s.By, 1); err != nil {
			return err
		}
	}
	s.groups.replace(counted)
	s.asked, s.nonce, s.at = now, nonce, at
	return nil
}

func (s *Standing) countSteps(steps []step, sees Sees, now time.Time) error {
	for _, st := range steps {
		if (st.before == nil || st.before.kind != s.Kind) && (st.after == nil || st.after.kind != s.Kind) {
			continue
		}
		if s.fits(st.before, sees, now) {
			if err := s.groups.add(st.before, s.By, -1); err != nil {
				return err
			}
		}
		if s.fits(st.after, sees, now) {
			if err := s.groups.add(st.after, s.By, 1); err != nil {
				return err
			}
		}
	}
	s.at += int64(len(steps))
	return nil
}

// personal says whether each look encodes a resource of a kind for itself: the message counts services or clusters that
// the caller sees, or has a status that no step tells of.
func personal(kind store.Kind) bool {
	switch kind {
	case store.KindProject, store.KindGlobalService, store.KindConfigSet, store.KindAgentConfig:
		return true
	}
	return stepless(kind)
}

// stepless says whether the status of a kind changes without a step: of sinks and backends the store tells nobody that
// a status was written.
func stepless(kind store.Kind) bool {
	return kind == store.KindSink || kind == store.KindBackend
}

// recounts says whether a step may change what is counted beside rows of a kind: services that came, went or were
// written; clusters, by which services of a global service wait for their removal; agents that said how they are
// configured, or that another configuration is for.
func recounts(kind store.Kind, st step) bool {
	of := cmp.Or(st.after, st.before).kind
	written := st.before == nil || st.after == nil || st.before.revision != st.after.revision
	switch kind {
	case store.KindProject, store.KindConfigSet:
		return written && of == store.KindService
	case store.KindGlobalService:
		return written && (of == store.KindService || of == store.KindCluster)
	case store.KindAgentConfig:
		return of == store.KindCluster || written && of == store.KindAgentConfig
	}
	return false
}

// itemsOf reads the resources of rows, but for those that were read for another question already. A resource that is
// read may have moved since its row was looked at: to where the caller sees nothing.
func (b *Index) itemsOf(
	ctx context.Context, kind store.Kind, rows []*row, sees Sees,
) (items []*Item, names []string, err error) {
	known := map[string]*Item{}
	var wanted []string
	b.answers.mu.Lock()
	for _, r := range rows {
		if l := b.answers.items[r.uid]; l.row == r && !personal(kind) {
			known[r.uid] = l.item
		} else {
			wanted = append(wanted, r.name)
		}
	}
	b.answers.mu.Unlock()
	fresh := map[string]loadedItem{}
	if len(wanted) > 0 {
		if err := b.readItems(ctx, kind, wanted, fresh); err != nil {
			return nil, nil, err
		}
	}
	b.answers.mu.Lock()
	defer b.answers.mu.Unlock()
	if b.answers.items == nil || len(b.answers.items) >= maxItems {
		b.answers.items = map[string]loadedItem{}
	}
	for _, r := range rows {
		item := known[r.uid]
		if l := fresh[r.uid]; l.item != nil && l.row.seenBy(sees) {
			item = l.item
			if !personal(kind) && l.row.project == r.project && l.row.cluster == r.cluster {
				b.answers.items[r.uid] = loadedItem{r, item}
			}
		}
		if item != nil { // else the resource went meanwhile, or moved
			items, names = append(items, item), append(names, r.name)
		}
	}
	return items, names, nil
}

// readItems reads resources by name, with what their own text says as a row.
func (b *Index) readItems(ctx context.Context, kind store.Kind, names []string, into map[string]loadedItem) error {
	return b.Store.Read(ctx, func(ctx context.Context, v store.View) error {
		found, err := v.Named(ctx, kind, names)
		if err != nil {
			return err
		}
		resources := make([]store.Resource, 0, len(found))
		for _, name := range names {
			if r, ok := found[name]; ok {
				resources = append(resources, r)
			}
		}
		values, err := b.Kinds.Load(ctx, b.Loader, v, kind, resources)
		if err != nil {
			return err
		}
		for i, value := range values {
			into[resources[i].UID] = loadedItem{structure(resources[i]), &Item{Kind: kind, Value: value}}
		}
		return nil
	})
}
