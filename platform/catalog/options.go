package catalog

import (
	"google.golang.org/protobuf/proto"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
)

// optionsOf is how a service is rendered, synced and tested, in the one form by which it is compared: a ServiceDelivery
// of nothing else. Empty for all defaults. The pin is in the folder.
func optionsOf(spec *consolev1.ServiceSpec) string {
	var out deliveryv1.ServiceDelivery
	if r := spec.GetRender(); proto.Size(r) > 0 {
		out.Render = r
	}
	if spec.GetSync() != nil {
		s := proto.CloneOf(spec.GetSync())
		s.Pin = ""
		switch s.GetMode() {
		case deliveryv1.SyncMode_SYNC_MODE_AUTO:
			s.Mode = deliveryv1.SyncMode_SYNC_MODE_UNSPECIFIED
		case deliveryv1.SyncMode_SYNC_MODE_MANUAL: // agents that don't know it hold the service
			s.Mode, out.Manual = deliveryv1.SyncMode_SYNC_MODE_HOLD, true
		}
		out.WindowSets = windowSet(serviceSet, "", s.GetWindows(), nil)
		s.Windows = nil
		if proto.Size(s) > 0 {
			out.Sync = s
		}
	}
	if t := spec.GetTests(); t != nil {
		t = proto.CloneOf(t)
		if t.GetOn() == deliveryv1.TestTrigger_TEST_TRIGGER_NONE {
			t.On = deliveryv1.TestTrigger_TEST_TRIGGER_UNSPECIFIED
		}
		if proto.Size(t) > 0 {
			out.Tests = t
		}
	}
	if spec.GetTestRequest().GetId() != "" {
		out.TestRequest = spec.GetTestRequest()
	}
	return writeOptions(&out)
}

// serviceSet is the kind of the windows that a service has of its own.
const serviceSet = "service"

// windowSet is what one resource says of the times of a service, as agents get it; nil: nothing.
func windowSet(kind, name string, windows []*deliveryv1.SyncWindow, freeze *deliveryv1.Freeze) []*deliveryv1.WindowSet {
	if len(windows) == 0 && freeze == nil {
		return nil
	}
	out := &deliveryv1.WindowSet{Kind: kind, Name: name, Freeze: freeze}
	for _, w := range windows {
		w = proto.CloneOf(w)
		w.Overriders = nil
		out.Windows = append(out.Windows, w)
	}
	return []*deliveryv1.WindowSet{out}
}

// WindowsOfProject and WindowsOfCluster are what these say of the times of their services, in the form of Options:
// behind those it is part of them. Empty: nothing.
func WindowsOfProject(p *consolev1.Project) string {
	return writeOptions(&deliveryv1.ServiceDelivery{WindowSets: windowSet("project", p.GetMetadata().GetName(), p.GetSpec().GetWindows(), p.GetFreeze())})
}

// WindowsOfCluster: see WindowsOfProject.
func WindowsOfCluster(c *consolev1.Cluster) string {
	return writeOptions(&deliveryv1.ServiceDelivery{WindowSets: windowSet("cluster", c.GetMetadata().GetName(), c.GetSpec().GetWindows(), c.GetFreeze())})
}

func writeOptions(d *deliveryv1.ServiceDelivery) string {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(d)
	if err != nil {
		return "" // of text that is no UTF-8, which no console takes
	}
	return string(b)
}

func readOptions(o string) *deliveryv1.ServiceDelivery {
	var d deliveryv1.ServiceDelivery
	_ = proto.Unmarshal([]byte(o), &d) // written by writeOptions
	return &d
}

// Options is what is delivered of the service besides its folder, in the wire's form of ServiceDelivery; equal for
// equal options. Labels of the cluster are in it for renderers that can see them.
func (s *Service) Options(labels map[string]string) string {
	o := s.options.Value()
	if parts := s.Parts(); len(parts) > 0 {
		o = placed(parts, o)
	}
	if len(labels) == 0 || !s.SeesLabels() {
		return o
	}
	d := readOptions(o)
	d.ClusterLabels = labels
	return writeOptions(d)
}

// ContentOptions are Options without windows, and without when tests run and who asked for them: what decides whether
// the cluster gets a new revision.
func (s *Service) ContentOptions(labels map[string]string) string {
	all := s.Options(labels)
	if all == "" {
		return ""
	}
	d := readOptions(all)
	if d.GetTests() == nil && d.GetTestRequest() == nil && d.GetWindowSets() == nil {
		return all
	}
	d.Tests, d.TestRequest, d.WindowSets = nil, nil, nil
	return writeOptions(d)
}

// BoundsOf is what a project bounds of its services' objects, in the form of Options: behind those it is part of them.
// Empty: it bounds nothing of them.
func BoundsOf(p *consolev1.Project) string {
	spec := p.GetSpec()
	if len(spec.GetNamespaces())+len(spec.GetKinds())+len(spec.GetDeniedKinds())+len(spec.GetAccounts()) == 0 {
		return ""
	}
	return writeOptions(&deliveryv1.ServiceDelivery{Rules: &deliveryv1.ObjectRules{
		Project: p.GetMetadata().GetName(), Namespaces: spec.GetNamespaces(), Kinds: spec.GetKinds(), DeniedKinds: spec.GetDeniedKinds(),
		Accounts: spec.GetAccounts(),
	}})
}

// SeesLabels says whether what is rendered may depend on labels of the cluster.
func (s *Service) SeesLabels() bool {
	o := s.options.Value()
	if o == "" {
		return false
	}
	switch readOptions(o).GetRender().GetRenderer() {
	case deliveryv1.Renderer_RENDERER_HELM, deliveryv1.Renderer_RENDERER_TEMPLATE:
		return true
	}
	return false
}
