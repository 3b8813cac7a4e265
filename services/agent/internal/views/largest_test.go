package views

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/viewset"
	"fairlead.dev/services/agent/internal/cluster"
	"fairlead.dev/services/agent/internal/object"
)

// hubTakes is the most of a push that the hub has to take from an agent that keeps to its bounds: the console has half
// of its own bound left for rows of before.
const hubTakes = 32 << 10

// text is one of so many bytes that differs by a number.
func text(n, size int) string { return fmt.Sprintf("%05d%s", n, strings.Repeat("x", size-5)) }

// fill gives a view as much of everything as it may have, with the longest texts.
func fill(v *View, from int) {
	for i := from; i < from+200; i++ {
		name, namespace, uid := text(i, maxName), text(i, 63), fmt.Sprint("uid-", i)
		v.nodes.put(uid, node{name: name, version: text(i, maxKind), bad: []string{text(i, maxKind), text(i+1, maxKind)}, since: int64(i)})
		v.pods.put(uid, pod{
			namespace: namespace, name: name, node: name, phase: text(i%7, maxKind), reason: text(i, maxReason), service: text(i, 63), notReady: true,
			since: int64(i), restarts: []restart{{count: 1 << 30}}, pulls: []pull{{text(i, maxWord), "ImagePullBackOff"}},
		})
		v.claims.put(uid, claim{namespace: namespace, name: name, phase: text(i, maxKind), service: text(i, 63), created: int64(i)})
		for kind, t := range v.workloads {
			t.put(uid, workload{kind: kind, namespace: namespace, name: name, service: text(i, 63), desired: 1 << 30, status: text(i, maxKind)})
		}
		c := &counted{first: int64(i), last: int64(i), text: text(i, maxText)}
		c.add(v.Now().Unix(), v.Now().Unix(), 1<<30)
		v.groups[group{text(i, maxReason), text(i, maxKind), namespace, name}] = c
		v.versions[text(i, maxName)] = []string{text(i, maxText)}
		v.requested = append(v.requested, cluster.DeprecatedAPI{})
	}
}

// largestSets are as many ViewSets as a cluster may have, each with as many figures as there may be.
func largestSets() (sets []*deliveryv1.NamedViewSet) {
	for i := range viewset.MaxAtCluster {
		content := &deliveryv1.ViewSetContent{
			Of:   &deliveryv1.ViewSetOf{Group: "example.com", Kind: "K" + text(i, 62)},
			Rows: &deliveryv1.ViewSetRows{Most: proto.Int32(100)},
		}
		for n := range 2 {
			content.Counts = append(content.Counts, &deliveryv1.ViewCount{Name: "c" + text(n, 23), Path: ".spec." + fmt.Sprint("f", n)})
		}
		for n := range 4 {
			content.Conditions = append(content.Conditions, "C"+text(n, 39))
		}
		for n := range 6 {
			content.Columns = append(content.Columns, &deliveryv1.ViewColumn{Name: "o" + text(n, 23), Path: ".spec.f" + fmt.Sprint(n%2)})
		}
		sets = append(sets, &deliveryv1.NamedViewSet{Name: "s" + text(i, viewset.MaxName-1), Content: content})
	}
	return sets
}

// The largest view that the bounds of the agent allow, and the largest change of it, are far from what the hub refuses.
// The console says so beside its bound.
func TestLargestViewFitsTheHub(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	p, h, v := pushing(t, &now)
	fill(v, 0)
	v.Want(largestSets())
	for i := range v.sets {
		for n := range 200 {
			o := map[string]any{
				"metadata": map[string]any{
					"name": text(n, maxName), "namespace": text(n, 63), "uid": fmt.Sprint("uid-", n),
					"labels": map[string]any{object.ServiceLabel: text(n, 63)},
				},
				"spec": map[string]any{"f0": text(n, maxValue), "f1": text(n+1, maxValue)},
			}
			if n == 0 {
				delete(o, "spec") // of which there is a figure, too
			}
			v.knows(i, o)
		}
	}
	why := strings.Repeat("é", 600)
	for _, k := range v.kinds {
		k.reason = why
	}
	for _, s := range v.sets {
		for _, part := range s.parts {
			part.reason = why
		}
	}
	push := func() int {
		t.Helper()
		request, acked := p.request()
		if _, err := h.PushView(t.Context(), request); err != nil {
			t.Fatal(err)
		}
		p.base, p.acked = request.GetSequence(), acked
		for _, s := range request.GetSections() {
			if len(s.GetReason()) < 500 || len(s.GetFigures()) == 0 {
				t.Errorf("section %s is not the largest: %d bytes of reason, %d figures", s.GetName(), len(s.GetReason()), len(s.GetFigures()))
			}
		}
		return proto.Size(request)
	}
	whole := push()
	fill(v, 1000)
	change := push()
	t.Logf("the largest push has %d bytes, a change of it %d", whole, change)
	if least := 20 << 10; whole < least || max(whole, change) > hubTakes {
		t.Errorf("the largest push has %d bytes, a change of it %d; want more than %d, or the test builds no large view, and %d at most", whole, change, least, hubTakes)
	}
	// Without ViewSets rows fill the view.
	v.Want(nil)
	if size := push(); size > hubTakes {
		t.Errorf("without ViewSets a push has %d bytes", size)
	}
}
