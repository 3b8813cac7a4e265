package acceptance

import (
	"bytes"
	"compress/gzip"
	"io"
	"testing"
	"time"

	"connectrpc.com/connect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/await"
	"fairlead.dev/platform/identity"
)

// curve reads the curve of a figure: of a cluster, or of all that the caller sees.
func (a api) curve(t *testing.T, req *consolev1.GetViewCurvesRequest, figure string) *consolev1.ViewCurve {
	t.Helper()
	resp, err := a.views.GetViewCurves(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if steps := resp.GetEndTime().AsTime().Sub(resp.GetBeginTime().AsTime()) / resp.GetStep().AsDuration(); steps != 287 {
		t.Errorf("a curve has %d steps", steps+1)
	}
	for _, c := range resp.GetCurves() {
		if c.GetFigure() == figure {
			return c
		}
	}
	t.Fatalf("there is no curve of %s: %v", figure, resp)
	return nil
}

// newest is the last point of a curve, and an empty one if there is none.
func newest(c *consolev1.ViewCurve) *consolev1.ViewCurvePoint {
	if n := len(c.GetPoints()); n > 0 {
		return c.GetPoints()[n-1]
	}
	return &consolev1.ViewCurvePoint{}
}

func TestCurvesAreForThoseWhoMaySeeTheCluster(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db string) {
		p := newPeople(t, db)
		d := p.service(t, identity.ServiceDistributor)
		p.admin.view(t, "edge-1") // the console has read the views
		one, all := &consolev1.GetViewCurvesRequest{Cluster: "edge-1"}, &consolev1.GetViewCurvesRequest{}
		if c := p.admin.curve(t, one, "pods.not_ready"); len(c.GetPoints()) > 0 {
			t.Errorf("without a view: %v", c)
		}
		shares := []*deliveryv1.ViewSection{
			{Name: "requests", State: 1, Figures: map[string]int64{"cpu": 1000}},
			{Name: "nodes", State: 1, Figures: map[string]int64{"cpu_allocatable": 4000}},
		}
		d.push(t, "edge-1", whole(1, 1, append(shares, podSection("a", "b", "c"))...))
		d.push(t, "edge-1", whole(1, 2, append(shares, podSection("a"))...))
		d.push(t, "edge-2", whole(1, 1, podSection("a", "b")))
		if got := newest(p.admin.curve(t, one, "shares.cpu")); got.GetLast() != 250 {
			t.Errorf("the share of edge-1: %v", got)
		}
		if got := newest(p.admin.curve(t, all, "pods.not_ready")); got.GetLast() != 3 || got.GetHighest() < 3 ||
			got.GetClusters() != 2 {
			t.Errorf("an administrator sees %v", got)
		}
		for name, req := range map[string]*consolev1.GetViewCurvesRequest{
			"the cluster": one, "all": all, "a filter": {Filter: "pods.not_ready < 9"},
		} {
			if got := newest(p.bob.curve(t, req, "pods.not_ready")); got.GetLast() != 1 || got.GetClusters() != 1 {
				t.Errorf("of %s a viewer of edge-1 sees %v", name, got)
			}
		}
		hidden := &consolev1.GetViewCurvesRequest{Filter: "name = edge-2"}
		if got := p.bob.curve(t, hidden, "pods.not_ready"); len(got.GetPoints()) > 0 {
			t.Errorf("a viewer of edge-1 sees of edge-2 %v", got)
		}
		if got := p.eve.curve(t, all, "pods.not_ready"); len(got.GetPoints()) > 0 {
			t.Errorf("somebody without a grant sees %v", got)
		}
		_, err := p.bob.views.GetViewCurves(t.Context(), &consolev1.GetViewCurvesRequest{Cluster: "edge-2"})
		wantCode(t, err, connect.CodeNotFound, "that you may see")
		both := &consolev1.GetViewCurvesRequest{Cluster: "edge-1", Filter: "name = edge-1"}
		_, err = p.bob.views.GetViewCurves(t.Context(), both)
		wantCode(t, err, connect.CodeInvalidArgument, "leave one of them out")
		_, err = p.bob.views.GetViewCurves(t.Context(), &consolev1.GetViewCurvesRequest{Filter: "pods.nonsense > 1"})
		wantCode(t, err, connect.CodeInvalidArgument, "pods.not_ready")
	})
}

// Curves outlive the console, and are in no backup.
func TestCurvesOutliveTheConsole(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db string) {
		h := newHub(t, db)
		r := h.start(t)
		r.admin(t).must(t, newCluster("edge-1"))
		r.admin(t).view(t, "edge-1")
		begin := time.Now()
		r.service(t, identity.ServiceDistributor).push(t, "edge-1", whole(1, 1, podSection("a", "b")))
		r.stop()
		again := h.start(t)
		admin := again.admin(t)
		var got *consolev1.ViewCurvePoint
		await.True(t, "the curve is there again", func() bool {
			got = newest(admin.curve(t, &consolev1.GetViewCurvesRequest{Cluster: "edge-1"}, "pods.not_ready"))
			return got.GetClusters() == 1
		})
		if got.GetLast() != 2 || got.GetTime().AsTime().Before(begin) {
			t.Errorf("got %v", got)
		}
		packed, err := gzip.NewReader(bytes.NewReader(again.backup(t)))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(packed)
		if err != nil || !bytes.Contains(text, []byte(`"views"`)) || bytes.Contains(text, []byte(`"view_curves"`)) {
			t.Errorf("the backup, %v:\n%s", err, text)
		}
	})
}

// Figures of a section that the agent does not count as a whole are gaps.
func TestFiguresOfBeforeAreNoPoints(t *testing.T) {
	t.Parallel()
	p := newPeople(t, "")
	d := p.service(t, identity.ServiceDistributor)
	p.admin.view(t, "edge-1")
	stale := podSection("a")
	stale.State, stale.Reason = deliveryv1.SectionState_SECTION_STATE_STALE, "no answer"
	d.push(t, "edge-1", whole(1, 1, stale, &deliveryv1.ViewSection{
		Name: "warnings", State: 1, Figures: map[string]int64{"hour": 7}, Sample: 2,
	}))
	req := &consolev1.GetViewCurvesRequest{Cluster: "edge-1"}
	if got := p.admin.curve(t, req, "pods.not_ready"); len(got.GetPoints()) > 0 {
		t.Errorf("of a stale section: %v", got)
	}
	if got := p.admin.curve(t, req, "warnings.hour"); newest(got).GetLast() != 7 || got.GetSampled() != 1 {
		t.Errorf("of a whole one: %v", got)
	}
}
