package replicas

import (
	"context"
	"errors"
	"fmt"
	"slices"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
)

// truth is what lists say when all is quiet.
func truth(ctx context.Context, r *Replica) (map[string]seen, error) {
	out := map[string]seen{}
	for token := ""; ; {
		resp, err := r.clusters.ListClusters(ctx, &consolev1.ListClustersRequest{PageSize: 1000, PageToken: token})
		if err != nil {
			return nil, err
		}
		for _, c := range resp.GetClusters() {
			m := c.GetMetadata()
			out[key(consolev1.Kind_KIND_CLUSTER, m.GetName())] = seen{m.GetUid(), c.GetSpec().GetDescription(), m.GetRevision()}
		}
		if token = resp.GetNextPageToken(); token == "" {
			break
		}
	}
	for token := ""; ; {
		resp, err := r.services.ListServices(ctx, &consolev1.ListServicesRequest{PageSize: 1000, PageToken: token})
		if err != nil {
			return nil, err
		}
		for _, s := range resp.GetServices() {
			m := s.GetMetadata()
			out[key(consolev1.Kind_KIND_SERVICE, m.GetName())] = seen{m.GetUid(), s.GetSpec().GetPath(), m.GetRevision()}
		}
		if token = resp.GetNextPageToken(); token == "" {
			return out, nil
		}
	}
}

// judgeGroups holds what is there against what was acknowledged.
func (t *Told) judgeGroups(is map[string]seen) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	wrong := slices.Clone(t.wrong)
	for _, g := range t.groups {
		value := is[key(consolev1.Kind_KIND_CLUSTER, g.members()[0])].value
		for _, name := range g.members() {
			if got := is[key(consolev1.Kind_KIND_CLUSTER, name)].value; got != value {
				wrong = append(wrong, fmt.Errorf("half a write: %s is %q, and %s %q", g.members()[0], value, name, got))
			}
		}
		if value != g.is && (g.maybe == nil || value != *g.maybe) {
			wrong = append(wrong, fmt.Errorf("group %s is %q, and %q was acknowledged", g.name, value, g.is))
		}
		if _, ok := is[key(consolev1.Kind_KIND_SERVICE, g.name)]; ok != (value != "") {
			wrong = append(wrong, fmt.Errorf("half a write: group %s is %q, and its service is there: %t", g.name, value, ok))
		}
	}
	return errors.Join(wrong...)
}

// judgeCounters holds the history of the counters against what was acknowledged: one more each time, by one writer.
func (t *Told) judgeCounters(ctx context.Context, r *Replica) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var wrong []error
	for i := range counters {
		history, err := values(ctx, r, counterName(i))
		if err != nil {
			return err
		}
		count := map[string]int{}
		for n, value := range history {
			var got int
			if _, err := fmt.Sscanf(value, "%d ", &got); err != nil || got != n {
				wrong = append(wrong, fmt.Errorf("%s: revision %d is %q", counterName(i), n+1, value))
			}
			count[value]++
		}
		for id, o := range t.increments[i] {
			if n := count[id]; o == acknowledged && n != 1 || o == refused && n != 0 || n > 1 {
				wrong = append(wrong, fmt.Errorf("%s: %q was written %d times (outcome %d)", counterName(i), id, n, o))
			}
		}
	}
	return errors.Join(wrong...)
}

// values of a cluster, the oldest first.
func values(ctx context.Context, r *Replica, cluster string) (out []string, err error) {
	for token := ""; ; {
		resp, err := r.history.ListRevisions(ctx, &consolev1.ListRevisionsRequest{
			Kind: consolev1.Kind_KIND_CLUSTER,
			Name: cluster, PageSize: 1000, PageToken: token,
		})
		if err != nil {
			return nil, err
		}
		for _, rev := range resp.GetRevisions() {
			out = append(out, rev.GetResource().GetCluster().GetSpec().GetDescription())
		}
		if token = resp.GetNextPageToken(); token == "" {
			slices.Reverse(out)
			return out, nil
		}
	}
}

// judge holds what a watcher knows against what is there.
func (v *view) judge(is map[string]seen) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	wrong := slices.Clone(v.wrong)
	for k, want := range is {
		if got, ok := v.state[k]; !ok || got != want {
			wrong = append(wrong, fmt.Errorf("%s: %s is %v there, and %v here", v.name, k, want, got))
		}
	}
	for k, got := range v.state {
		if _, ok := is[k]; !ok {
			wrong = append(wrong, fmt.Errorf("%s: %s is gone, and %v here", v.name, k, got))
		}
	}
	return errors.Join(wrong...)
}

// judgeEvents holds what was told of events against the list of them, and that against acknowledged pins.
func (t *Told) judgeEvents(list []*consolev1.Event, views ...*eventView) error {
	var wrong []error
	for _, v := range views {
		v.seen.mu.Lock()
		if len(v.events) != len(list) {
			wrong = append(wrong, fmt.Errorf("%s: was told %d events of %d", v.seen.name, len(v.events), len(list)))
		}
		for i := range min(len(list), len(v.events)) {
			if got, want := v.events[i].GetId(), list[i].GetId(); got != want {
				wrong = append(wrong, fmt.Errorf("%s: event %d is %s, want %s", v.seen.name, i, got, want))
				break
			}
		}
		v.seen.mu.Unlock()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	told := map[string][]string{}
	for _, e := range list {
		if e.GetType() == "pin.set" {
			told[e.GetService()] = append(told[e.GetService()], e.GetCommit())
		}
	}
	for service, pins := range t.pins {
		got := told[service]
		for _, p := range pins {
			at := slices.Index(got, p.commit)
			switch {
			case at > 0:
				wrong = append(wrong, fmt.Errorf("%s: event of %s comes before that of %s, or twice", service, got[0], p.commit))
				got = got[at+1:]
			case at == 0:
				got = got[1:]
			case p.outcome == acknowledged:
				wrong = append(wrong, fmt.Errorf("%s: no event of pin %s, which was acknowledged", service, p.commit))
			}
		}
		if len(got) > 0 && !slices.Equal(got, []string{endCommit}) {
			wrong = append(wrong, fmt.Errorf("%s: events of nobody's pins, or twice: %v", service, got))
		}
	}
	return errors.Join(wrong...)
}

// events that are kept, the oldest first.
func events(ctx context.Context, r *Replica) (list []*consolev1.Event, err error) {
	for token := ""; ; {
		resp, err := r.events.ListEvents(ctx, &consolev1.ListEventsRequest{PageSize: 1000, PageToken: token})
		if err != nil {
			return nil, err
		}
		list = append(list, resp.GetEvents()...)
		if token = resp.GetNextPageToken(); token == "" {
			slices.Reverse(list)
			return list, nil
		}
	}
}
