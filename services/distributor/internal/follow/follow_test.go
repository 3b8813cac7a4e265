package follow_test

import (
	"testing"
	"time"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/catalog"
	"fairlead.dev/platform/delivery"
	"fairlead.dev/services/distributor/internal/follow"
	"fairlead.dev/services/distributor/internal/plan"
)

// hub has one service.
type hub struct {
	follow.Catalog

	revision int64
	source   *consolev1.Source
	cluster  *consolev1.Cluster
	delta    catalog.Delta
}

func (h *hub) Revision() int64                           { return h.revision }
func (h *hub) Take() catalog.Delta                       { return h.delta }
func (h *hub) Source(string) (*consolev1.Source, bool)   { return h.source, true }
func (h *hub) Cluster(string) (*consolev1.Cluster, bool) { return h.cluster, true }
func (h *hub) Service(string) (*catalog.Service, bool) {
	return catalog.NewService(service(0, 0).GetService()), true
}
func (h *hub) Project(string) (p *consolev1.Project, ok bool) { return nil, false }

// A freeze that comes together with a commit that can't be had reaches an agent that has what was before both.
func TestWhatComesWithACommitThatCantBeHadIsDelivered(t *testing.T) {
	t.Parallel()
	name := func(s string) map[string]struct{} { return map[string]struct{}{s: {}} }
	h := &hub{
		revision: 1, source: source(0, 1).GetSource(), cluster: &consolev1.Cluster{Metadata: meta("cluster-00000")},
		delta: catalog.Delta{Sources: name("source-0"), Clusters: name("cluster-00000"), Services: name("cluster-00000-service-00")},
	}
	p := plan.New(plan.Memory{})
	p.Update(time.Unix(1, 0), (*plan.Update).Loaded)
	follow.Apply(p, h, h, time.Unix(1, 0))
	answerAll(p)
	truth, _ := p.Truth("cluster-00000-service-00")
	has := map[string]string{"cluster-00000-service-00": truth.Delivery.Digest}

	h.revision, h.source = 2, source(0, 2).GetSource()
	h.cluster = &consolev1.Cluster{Metadata: meta("cluster-00000"), Freeze: &deliveryv1.Freeze{}}
	h.delta.Services = nil
	follow.Apply(p, h, h, time.Unix(2, 0))
	p.Answer(time.Unix(2, 0), plan.Answer{Want: p.Open()[0], Failure: &plan.Failure{Kind: plan.NoFolder}})
	d, err := p.Compare("cluster-00000", delivery.SetDigest(has), has, 2, 0)
	if err != nil || len(d.Changed) != 1 {
		t.Errorf("the agent is told %+v, %v", d, err)
	}
}
