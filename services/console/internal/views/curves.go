package views

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/refusal"
	"fairlead.dev/platform/retry"
	"fairlead.dev/services/console/internal/query"
	"fairlead.dev/services/console/internal/store"
	"fairlead.dev/services/console/internal/store/shown"
)

const (
	// observeEvery is how often the figures of clusters that push nothing are noted.
	observeEvery = time.Minute
	// keptPerStep is how many curves are written in each step: those of 1,000 clusters every step, those of 10,000
	// every 50 minutes.
	keptPerStep = 1000
	// keptAtOnce is how many are written in one transaction.
	keptAtOnce = 100
	// keptWithin bounds how long a console that stops writes curves.
	keptWithin = 10 * time.Second
)

// curves are those of all clusters, by their uids.
type curves struct {
	mu sync.Mutex // guards of and the curves in it
	of map[string]*curve
}

// note adds what is known of a cluster now.
func (c *curves) note(uid string, now time.Time, p point) {
	if p == (point{}) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.of[uid]
	if one == nil {
		one = &curve{step: stepOf(now)}
		c.of[uid] = one
	}
	if step := stepOf(now); step != one.step {
		_ = one.turn(step, nil) // nothing from elsewhere is decoded
	}
	one.open = one.open.then(p)
}

// into adds what was noted of a cluster to a day.
func (c *curves) into(d *day, uid string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if one := c.of[uid]; one != nil {
		one.into(d)
	}
}

// load takes in what the database has.
func (c *curves) load(list []shown.ClusterCurve, now time.Time) (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, is := range list {
		one := c.of[is.Cluster]
		if one == nil {
			one = &curve{}
			c.of[is.Cluster] = one
		}
		err = errors.Join(err, one.turn(stepOf(now), is.Data))
		one.kept = one.step
	}
	return err
}

// forget drops the curves of clusters that are gone.
func (c *curves) forget(there map[string]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for uid := range c.of {
		if !there[uid] {
			delete(c.of, uid)
		}
	}
}

// due returns clusters with steps that the database does not have, those of which it lacks the most first. unended: the
// open steps count, too.
func (c *curves) due(most int, unended bool) (uids []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for uid, one := range c.of {
		if one.kept < one.step || unended {
			uids = append(uids, uid)
		}
	}
	slices.SortFunc(uids, func(x, y string) int {
		return cmp.Or(cmp.Compare(c.of[x].kept, c.of[y].kept), cmp.Compare(x, y))
	})
	return uids[:min(most, len(uids))]
}

// join takes in what other consoles wrote of clusters, and returns those curves of which the database lacks something,
// and the open steps of all.
func (c *curves) join(uids []string, stored map[string][]byte, now time.Time) (
	list []shown.ClusterCurve, steps map[string]int64, err error,
) {
	c.mu.Lock()
	defer c.mu.Unlock()
	steps = map[string]int64{}
	for _, uid := range uids {
		one := c.of[uid]
		if one == nil {
			continue // the cluster is gone
		}
		err = errors.Join(err, one.turn(stepOf(now), stored[uid]))
		whole := day{end: one.step}
		one.into(&whole)
		if data := whole.encode(); !bytes.Equal(data, stored[uid]) {
			list = append(list, shown.ClusterCurve{Cluster: uid, Data: data})
		}
		steps[uid] = one.step
	}
	return list, steps, err
}

// wrote notes that the database has the steps before some.
func (c *curves) wrote(steps map[string]int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for uid, step := range steps {
		if one := c.of[uid]; one != nil {
			one.kept = step
		}
	}
}

// RunCurves notes the figures of all clusters every minute, and keeps curves in the database, until ctx ends.
func (b *Board) RunCurves(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-b.loaded:
	}
	loaded, failed := false, false
	for kept := int64(0); ; {
		var err error
		if !loaded {
			err = b.loadCurves(ctx)
			loaded = err == nil
		}
		err = errors.Join(err, b.observe(ctx))
		if step := stepOf(time.Now()); step != kept && loaded {
			err, kept = errors.Join(err, b.keepCurves(ctx, keptPerStep, false)), step
		}
		if err != nil && !failed && ctx.Err() == nil {
			b.Log.WarnContext(ctx, "curves of views may have gaps", "err", err)
		}
		failed = err != nil
		if !retry.Sleep(ctx, time.Until(time.Now().Truncate(observeEvery).Add(observeEvery))) {
			if loaded {
				b.keepLast(ctx)
			}
			return nil
		}
	}
}

// keepLast writes all curves when the console stops.
func (b *Board) keepLast(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keptWithin)
	defer cancel()
	if err := b.keepCurves(ctx, math.MaxInt, true); err != nil {
		b.Log.WarnContext(ctx, "the last steps of curves of views are lost", "err", err)
	}
}

// observe notes what is known of all clusters now.
func (b *Board) observe(ctx context.Context) error {
	clusters, err := b.Subjects(ctx)
	now := time.Now()
	for _, s := range clusters {
		if s.current {
			b.curves.note(s.UID(), now, pointOf(s.view))
		}
	}
	return err
}

// loadCurves reads what consoles have kept. A curve that makes no sense begins anew.
func (b *Board) loadCurves(ctx context.Context) error {
	for after := ""; ; {
		var list []shown.ClusterCurve
		err := b.Store.Read(ctx, func(ctx context.Context, v store.View) (err error) {
			list, err = v.ClusterCurves(ctx, after, chunk)
			return err
		})
		if err != nil {
			return err
		}
		if err := b.curves.load(list, time.Now()); err != nil {
			b.Log.WarnContext(ctx, "curves of views that the database has are left out", "err", err)
		}
		if len(list) < chunk {
			return nil
		}
		after = list[len(list)-1].Cluster
	}
}

// keepCurves writes up to so many curves.
func (b *Board) keepCurves(ctx context.Context, most int, unended bool) error {
	for uids := range slices.Chunk(b.curves.due(most, unended), keptAtOnce) {
		var steps map[string]int64
		err := b.Store.ChangeCurves(ctx, uids, func(stored map[string][]byte) (list []shown.ClusterCurve) {
			var err error
			if list, steps, err = b.curves.join(uids, stored, time.Now()); err != nil {
				b.Log.WarnContext(ctx, "curves of views that the database has are written anew", "err", err)
			}
			return list
		})
		if err != nil {
			return err
		}
		b.curves.wrote(steps)
	}
	return nil
}

// total is a figure of some clusters in one step.
type total struct {
	last, highest, whole int64
	clusters             int32
}

// of is the total of one cluster. The highest share weighs as much as the whole that it is of.
func of(s spot) total {
	switch {
	case s[0] == 0:
		return total{}
	case s[2] == 0:
		return total{last: unpack(s[0]), highest: unpack(s[1]), clusters: 1}
	}
	whole := unpack(s[2])
	return total{last: unpack(s[0]), highest: unpack(s[1]) * whole, whole: whole, clusters: 1}
}

func (t *total) add(o total) {
	t.last, t.highest, t.whole, t.clusters = t.last+o.last, t.highest+o.highest, t.whole+o.whole, t.clusters+o.clusters
}

func (t *total) subtract(o total) {
	t.last, t.highest, t.whole, t.clusters = t.last-o.last, t.highest-o.highest, t.whole-o.whole, t.clusters-o.clusters
}

// totals are those of each step of a day.
type totals [curveSteps][figuresWithCurve]total

// add takes in a cluster: in each step what differs from the step before, because most steps of most clusters are like
// the step before.
func (t *totals) add(d *day) {
	var before point
	for i, now := range d.points {
		if now == before {
			continue
		}
		for k := range now {
			if now[k] != before[k] {
				t[i][k].add(of(now[k]))
				t[i][k].subtract(of(before[k]))
			}
		}
		before = now
	}
}

// end makes totals of differences.
func (t *totals) end() {
	for i := 1; i < len(t); i++ {
		for k := range t[i] {
			t[i][k].add(t[i-1][k])
		}
	}
}

// point returns what people see.
func (t *total) point(step int64) *consolev1.ViewCurvePoint {
	last, highest := t.last, t.highest
	if t.whole > 0 {
		last, highest = t.last*1000/t.whole, t.highest/t.whole
	}
	return &consolev1.ViewCurvePoint{
		Time: stamp(endOf(step)), Last: last, Highest: max(last, highest), Clusters: t.clusters,
	}
}

// chosen is the cluster of a name, or those that fit.
func chosen(all []*seen, cluster, question string) ([]*seen, error) {
	if cluster != "" && question != "" {
		return nil, refusal.New(refusal.Invalid, "filter: the cluster is named: leave one of them out")
	}
	if cluster != "" {
		one, err := named(all, cluster)
		return []*seen{one}, err
	}
	expr, err := query.Parse(question, fieldsOf(all, question))
	if err != nil {
		return nil, refusal.New(refusal.Invalid, "filter: %v", err)
	}
	return fitting(all, expr), nil
}

// Curves returns the curves of a cluster, or the sums of those that fit and that the caller sees.
func (b *Board) Curves(
	ctx context.Context, req *consolev1.GetViewCurvesRequest,
) (*consolev1.GetViewCurvesResponse, error) {
	all, _, err := b.look(ctx, true)
	if err != nil {
		return nil, err
	}
	if all, err = chosen(all, req.GetCluster(), req.GetFilter()); err != nil {
		return nil, err
	}
	end := stepOf(time.Now())
	sums := new(totals)
	out := &consolev1.GetViewCurvesResponse{
		Step: durationpb.New(stepLength), BeginTime: stamp(endOf(end - curveSteps + 1)), EndTime: stamp(endOf(end)),
		Clusters: int32(len(all)),
	}
	for _, s := range all {
		d := day{end: end}
		b.curves.into(&d, s.UID())
		sums.add(&d)
	}
	sums.end()
	for k, f := range curveFigures() {
		made := &consolev1.ViewCurve{Figure: f.name, Sampled: f.sampled(all)}
		for i := range sums {
			if sums[i][k].clusters > 0 {
				made.Points = append(made.Points, sums[i][k].point(end-curveSteps+1+int64(i)))
			}
		}
		out.Curves = append(out.Curves, made)
	}
	return out, nil
}

// sampledOf is the figure that says that another one is an estimate.
func sampledOf(figure string) string {
	section, _, _ := strings.Cut(figure, ".")
	return section + ".sampled"
}

// sampled counts the clusters of which a figure is an estimate now.
func (f curveFigure) sampled(clusters []*seen) (n int32) {
	for _, s := range clusters {
		if s.view == nil {
			continue
		}
		part, _ := s.view.figures.get(sampledOf(f.part))
		whole, _ := s.view.figures.get(sampledOf(f.whole))
		if part > 0 || f.whole != "" && whole > 0 {
			n++
		}
	}
	return n
}
