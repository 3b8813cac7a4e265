package catalog_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/catalog"
)

func withOptions(render *deliveryv1.RenderSpec, sync *deliveryv1.SyncSpec) *consolev1.Service {
	return &consolev1.Service{
		Metadata: meta("hello", "1"),
		Spec:     &consolev1.ServiceSpec{Source: "shop", Ref: "main", Cluster: "edge-1", Render: render, Sync: sync},
	}
}

func TestOptionsTravelWithoutThePin(t *testing.T) {
	t.Parallel()
	pin := strings.Repeat("a", 40)
	sync := &deliveryv1.SyncSpec{Mode: deliveryv1.SyncMode_SYNC_MODE_HOLD, Pin: pin, DependsOn: []string{"db"}}
	s := catalog.NewService(withOptions(&deliveryv1.RenderSpec{Path: "prod"}, sync))
	if s.Folder().Ref != pin {
		t.Errorf("the ref is %q, not the pin", s.Folder().Ref)
	}
	var got deliveryv1.ServiceDelivery
	if err := proto.Unmarshal([]byte(s.Options(nil)), &got); err != nil {
		t.Fatal(err)
	}
	want := &deliveryv1.ServiceDelivery{
		Render: &deliveryv1.RenderSpec{Path: "prod"},
		Sync:   &deliveryv1.SyncSpec{Mode: deliveryv1.SyncMode_SYNC_MODE_HOLD, DependsOn: []string{"db"}},
	}
	if !proto.Equal(&got, want) {
		t.Errorf("got %v", &got)
	}
	if sync.GetPin() != pin {
		t.Error("the caller's message was changed")
	}
}

// The ref of a service with a pin is followed all the same, after a restart as well: people see what waits there.
func TestAPinnedServiceFollowsItsRef(t *testing.T) {
	t.Parallel()
	pin := strings.Repeat("a", 40)
	for _, after := range []string{"", strings.Repeat("b", 40)} {
		of := withOptions(nil, &deliveryv1.SyncSpec{Pin: pin})
		of.Spec.UnpinAfter = after
		s := catalog.NewService(of)
		for _, s := range []*catalog.Service{s, catalog.Kept(s), catalog.Kept(catalog.Kept(s))} {
			if !s.Follows("shop", pin) || !s.Follows("shop", "refs/heads/main") || s.Follows("shop", "HEAD") ||
				s.Folder().Ref != pin || s.Options(nil) != "" {
				t.Errorf("until %q: %v", after, s)
			}
		}
	}
}

func TestDefaultsAreNoOptions(t *testing.T) {
	t.Parallel()
	for _, s := range []*consolev1.Service{
		withOptions(nil, nil), withOptions(&deliveryv1.RenderSpec{}, &deliveryv1.SyncSpec{}),
		withOptions(nil, &deliveryv1.SyncSpec{Pin: strings.Repeat("a", 40), Mode: deliveryv1.SyncMode_SYNC_MODE_AUTO}),
	} {
		if o := catalog.NewService(s).Options(map[string]string{"a": "b"}); o != "" {
			t.Errorf("%v: %q", s, o)
		}
	}
}

func TestLabelsGoToThoseThatSeeThem(t *testing.T) {
	t.Parallel()
	for renderer, sees := range map[deliveryv1.Renderer]bool{
		deliveryv1.Renderer_RENDERER_RAW: false, deliveryv1.Renderer_RENDERER_KUSTOMIZE: false,
		deliveryv1.Renderer_RENDERER_HELM: true, deliveryv1.Renderer_RENDERER_TEMPLATE: true,
	} {
		s := catalog.NewService(withOptions(&deliveryv1.RenderSpec{Renderer: renderer}, nil))
		one, other := s.Options(map[string]string{
			"zone": "a", "b": "c",
		}), s.Options(map[string]string{"zone": "b", "b": "c"})
		if (one != other) != sees {
			t.Errorf("%s: labels count: %v", renderer, one != other)
		}
		if again := s.Options(map[string]string{"b": "c", "zone": "a"}); again != one {
			t.Errorf("%s: the order of labels counts", renderer)
		}
	}
}

func TestOptionsComeBackFromTheDisk(t *testing.T) {
	t.Parallel()
	con, client := newConsole(t)
	dir := t.TempDir()
	c := open(t, dir, client)
	stop := run(t, c)
	sub := c.Subscribe()
	defer sub.Close()
	s := withOptions(&deliveryv1.RenderSpec{Renderer: deliveryv1.Renderer_RENDERER_TEMPLATE},
		&deliveryv1.SyncSpec{Pin: strings.Repeat("a", 40), Reason: "x"})
	con.next(t).say(t, begin(), changes("", &consolev1.Change{Change: &consolev1.Change_Service{Service: s}}),
		end("t1"))
	await(t, sub, func() bool { _, ok := c.Service("hello"); return ok })
	before, _ := c.Service("hello")
	stop()
	after, ok := open(t, dir, client).Service("hello")
	if !ok || after.Options(nil) != before.Options(nil) || after.FolderID() != before.FolderID() ||
		after.Options(nil) == "" {
		t.Errorf("%+v became %+v", before, after)
	}
}

// A run that somebody asks for is something for the agent to do, and no new revision.
func TestTestsAreOptionsButNoContent(t *testing.T) {
	t.Parallel()
	labels := map[string]string{"zone": "a"}
	plain := withOptions(&deliveryv1.RenderSpec{Renderer: deliveryv1.Renderer_RENDERER_HELM},
		&deliveryv1.SyncSpec{Reason: "x"})
	want := catalog.NewService(plain).Options(labels)
	seen := map[string]bool{want: true}
	for name, set := range map[string]func(*consolev1.ServiceSpec){
		"tests": func(s *consolev1.ServiceSpec) { s.Tests = &deliveryv1.TestSpec{Path: "tests", Retries: 1} },
		"asked": func(s *consolev1.ServiceSpec) { s.TestRequest = &deliveryv1.TestRequest{Id: "a"} },
		"both": func(s *consolev1.ServiceSpec) {
			s.Tests, s.TestRequest = &deliveryv1.TestSpec{Path: "tests"}, &deliveryv1.TestRequest{Id: "b"}
		},
	} {
		of := proto.CloneOf(plain)
		set(of.GetSpec())
		for _, s := range []*catalog.Service{catalog.NewService(of), catalog.Kept(catalog.NewService(of))} {
			if got := s.ContentOptions(labels); got != want {
				t.Errorf("%s: content %q, want %q", name, got, want)
			}
			var sent deliveryv1.ServiceDelivery
			if err := proto.Unmarshal([]byte(s.Options(labels)), &sent); err != nil {
				t.Fatal(err)
			}
			if !proto.Equal(sent.GetTests(), of.GetSpec().GetTests()) ||
				!proto.Equal(sent.GetTestRequest(), of.GetSpec().GetTestRequest()) {
				t.Errorf("%s: delivered as %v", name, &sent)
			}
			seen[s.Options(labels)] = true
		}
	}
	if len(seen) != 4 {
		t.Errorf("%d kinds of options for 4 services", len(seen))
	}
	none := proto.CloneOf(plain)
	none.Spec.Tests, none.Spec.TestRequest = &deliveryv1.TestSpec{
		On: deliveryv1.TestTrigger_TEST_TRIGGER_NONE,
	}, &deliveryv1.TestRequest{}
	if got := catalog.NewService(none).Options(labels); got != want {
		t.Errorf("tests by default: %q, want %q", got, want)
	}
}
