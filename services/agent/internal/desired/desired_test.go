package desired_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/services/agent/internal/desired"
)

func open(t *testing.T, dir string) *desired.Store {
	t.Helper()
	store, err := desired.Open(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func TestWhatIsWantedSurvivesARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := open(t, dir)
	if err := store.Update([]desired.Service{{Name: "a", Digest: "1"}, {Name: "b", Digest: "1"}}, nil, 0); err != nil {
		t.Fatal(err)
	}
	if err := store.Update([]desired.Service{{Name: "a", Digest: "2"}}, []string{"b"}, 0); err != nil {
		t.Fatal(err)
	}
	store = open(t, dir)
	if a, want := store.Get("a"); want != desired.Apply || a.Digest != "2" {
		t.Errorf("a: %v %v", a, want)
	}
	if _, want := store.Get("b"); want != desired.Remove {
		t.Errorf("b: %v", want)
	}
	if digests := store.Digests(); len(digests) != 1 || digests["a"] != "2" {
		t.Errorf("the agent claims to have %v", digests)
	}
	if err := store.Forget("b"); err != nil {
		t.Fatal(err)
	}
	if _, want := open(t, dir).Get("b"); want != desired.Nothing {
		t.Errorf("b after it was forgotten: %v", want)
	}
}

func TestOptionsSurviveARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := open(t, dir)
	want := desired.Service{
		Name: "a", Digest: "1", Commit: "c",
		Render: &deliveryv1.RenderSpec{Renderer: deliveryv1.Renderer_RENDERER_HELM, Path: "chart"},
		Sync: &deliveryv1.SyncSpec{
			Mode: deliveryv1.SyncMode_SYNC_MODE_HOLD, OnDelete: deliveryv1.DeletePolicy_DELETE_POLICY_ORPHAN,
			RequestTime: timestamppb.New(time.Unix(7, 0)),
		},
		ClusterLabels: map[string]string{"zone": "a"}, ContentDigest: "0",
		Tests: &deliveryv1.TestSpec{Path: "tests", Retries: 2}, TestRequest: &deliveryv1.TestRequest{Id: "one"},
	}
	if err := store.Update([]desired.Service{want}, nil, 0); err != nil {
		t.Fatal(err)
	}
	got, _ := open(t, dir).Get("a")
	if !proto.Equal(got.Tests, want.Tests) || !proto.Equal(got.TestRequest, want.TestRequest) ||
		got.RevisionDigest() != "0" {
		t.Errorf("got %+v", got)
	}
	if !proto.Equal(got.Render, want.Render) || !proto.Equal(got.Sync, want.Sync) ||
		got.ClusterLabels["zone"] != "a" || got.Commit != "c" {
		t.Errorf("got %+v", got)
	}
	// How it was synced decides what becomes of its objects when it goes.
	if err := store.Update(nil, []string{"a"}, 0); err != nil {
		t.Fatal(err)
	}
	if err := store.Update(nil, []string{"a"}, 0); err != nil { // said twice
		t.Fatal(err)
	}
	if left, what := open(t, dir).Get("a"); what != desired.Remove || left.Name != "a" ||
		!proto.Equal(left.Sync, want.Sync) {
		t.Errorf("leaving: %v %+v", what, left)
	}
}

func TestRecordOfAnEarlierReleaseIsRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	record := `{"services":{"a":{"name":"a","digest":"1","namespace":"n","source":"s","path":"p","commit":"c","artifact":"","size":1}},"leaving":{"b":true}}`
	if err := os.WriteFile(filepath.Join(dir, "desired.json"), []byte(record), 0o600); err != nil {
		t.Fatal(err)
	}
	store := open(t, dir)
	if a, want := store.Get("a"); want != desired.Apply || a.Namespace != "n" || a.Sync != nil {
		t.Errorf("a: %v %+v", want, a)
	}
	if _, want := store.Get("b"); want != desired.Remove {
		t.Errorf("b: %v", want)
	}
}

func TestContentIsWhatObjectsAreMadeFrom(t *testing.T) {
	t.Parallel()
	one := desired.Service{Name: "a", Digest: "1", Namespace: "n", Path: "p", Artifact: "x"}
	for name, same := range map[string]func(*desired.Service){
		"digest": func(s *desired.Service) { s.Digest = "2" },
		"commit": func(s *desired.Service) { s.Commit = "2" },
		"sync":   func(s *desired.Service) { s.Sync = &deliveryv1.SyncSpec{Reason: "x"} },
		"tests": func(s *desired.Service) {
			s.Tests, s.TestRequest = &deliveryv1.TestSpec{Retries: 1}, &deliveryv1.TestRequest{Id: "one"}
		},
	} {
		other := one
		same(&other)
		if other.Content() != one.Content() {
			t.Errorf("%s counts", name)
		}
	}
	for name, differs := range map[string]func(*desired.Service){
		"namespace": func(s *desired.Service) { s.Namespace = "m" },
		"path":      func(s *desired.Service) { s.Path = "q" },
		"artifact":  func(s *desired.Service) { s.Artifact = "y" },
		"render":    func(s *desired.Service) { s.Render = &deliveryv1.RenderSpec{Path: "x"} },
		"labels":    func(s *desired.Service) { s.ClusterLabels = map[string]string{"a": "b"} },
	} {
		other := one
		differs(&other)
		if other.Content() == one.Content() {
			t.Errorf("%s does not count", name)
		}
	}
}

func TestServiceThatIsWantedAgainIsNotRemoved(t *testing.T) {
	t.Parallel()
	store := open(t, t.TempDir())
	for _, err := range []error{
		store.Update([]desired.Service{{Name: "a", Digest: "1"}}, nil, 0), store.Update(nil, []string{"a"}, 0),
		store.Update([]desired.Service{{Name: "a", Digest: "1"}}, nil, 0), store.Forget("a"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, want := store.Get("a"); want != desired.Apply {
		t.Errorf("a: %v", want)
	}
}

func TestDamagedRecordIsSetAside(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "desired.json"), []byte(`{"services":`), 0o600); err != nil {
		t.Fatal(err)
	}
	if names := open(t, dir).Names(); len(names) != 0 {
		t.Errorf("got %v", names)
	}
	if _, err := os.Stat(filepath.Join(dir, "desired.json.damaged")); err != nil {
		t.Error(err)
	}
}

func TestARequestForASyncIsAboutWhatCameWithIt(t *testing.T) {
	t.Parallel()
	s, err := desired.Open(t.TempDir(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	asked := func(at int64, mode deliveryv1.SyncMode, path string) desired.Service {
		return desired.Service{
			Name: "web", Digest: "d", Path: path, Manual: mode == deliveryv1.SyncMode_SYNC_MODE_MANUAL,
			Sync: &deliveryv1.SyncSpec{Mode: mode, RequestTime: &timestamppb.Timestamp{Seconds: at}},
		}
	}
	const manual, hold = deliveryv1.SyncMode_SYNC_MODE_MANUAL, deliveryv1.SyncMode_SYNC_MODE_HOLD
	for i, step := range []struct {
		service desired.Service
		asked   bool
	}{
		{asked(1, manual, "a"), true},
		{asked(1, manual, "b"), false}, // the content that came later
		{asked(1, manual, "a"), true},  // the content that it was about again
		{asked(2, manual, "b"), true},
		{asked(3, hold, "b"), false}, // a hold applies nothing
		{asked(3, manual, "b"), false},
		{desired.Service{Name: "web", Digest: "d", Path: "b"}, false},
	} {
		if err := s.Update([]desired.Service{step.service}, nil, 0); err != nil {
			t.Fatal(err)
		}
		if is, _ := s.Get("web"); (is.Asked(is.AskedFor) != "") != step.asked {
			t.Errorf("step %d: asked %q", i, is.Asked(is.AskedFor))
		}
	}
}

// A request that an agent without the disk of before finds may have been asked, and served, long ago.
func TestARequestThatComesWithANewServiceIsMarked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	for i, step := range []struct {
		at     int64 // of the request
		marked bool
	}{{1, true}, {1, true}, {2, false}, {2, false}} {
		if err := s.Update([]desired.Service{
			{
				Name: "web", Digest: "d",
				Sync: &deliveryv1.SyncSpec{RequestTime: &timestamppb.Timestamp{Seconds: step.at}},
			},
		}, nil, 0); err != nil {
			t.Fatal(err)
		}
		s = open(t, dir)
		if is, _ := s.Get("web"); is.AskedBefore != step.marked || is.AskedFor == "" {
			t.Errorf("step %d: marked %t, asked for %q", i, is.AskedBefore, is.AskedFor)
		}
	}
}

// An agent that knows no windows keeps deliveries without them, under the digest of those that have them.
func TestWhatAnOlderAgentWroteDownIsAskedForAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "desired.json"),
		[]byte(`{"services":{"a":{"name":"a","digest":"1"},"b":{"name":"b","digest":"1"}},"revision":7}`),
		0o600); err != nil {
		t.Fatal(err)
	}
	store := open(t, dir)
	if digests := store.Digests(); digests["a"] != "" || digests["b"] != "" || len(digests) != 2 {
		t.Errorf("the agent claims to have %v", digests)
	}
	if a, want := store.Get("a"); want != desired.Apply || a.Digest != "1" {
		t.Errorf("with the hub away a is %v %v", a, want)
	}
	if err := store.Update([]desired.Service{{Name: "a", Digest: "1"}}, nil, 0); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if digests := store.Digests(); digests["a"] != "1" && digests["a"] != "" || digests["b"] != "" {
			t.Errorf("after the first answer the agent claims to have %v", digests)
		}
		store = open(t, dir) // every service is asked for again until all were told
	}
	if err := store.Update([]desired.Service{{Name: "a", Digest: "1"}, {Name: "b", Digest: "1"}}, nil, 0); err != nil {
		t.Fatal(err)
	}
	if digests := open(t, dir).Digests(); digests["a"] != "1" || digests["b"] != "1" {
		t.Errorf("in the end the agent claims to have %v", digests)
	}
}

// Another agent has worked since: what this disk says is of another time, but for the secrets that texts may still
// quote.
func TestNothingIsWantedOfADoubtedServiceUntilTheHubTells(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := open(t, dir)
	secret := func(text string) *deliveryv1.Configuration {
		return &deliveryv1.Configuration{Entries: []*deliveryv1.ConfigurationEntry{
			{Name: "password", Secret: true, Value: &deliveryv1.ConfigurationEntry_Text{Text: text}},
		}}
	}
	services := []desired.Service{
		{Name: "web", Digest: "1", Configuration: secret("before-all")},
		{Name: "old", Digest: "1"},
		{Name: "goes", Digest: "1", Configuration: secret("of-goes"), Sync: &deliveryv1.SyncSpec{Impersonate: "was"}},
		{Name: "leaves", Digest: "1"},
	}
	if err := store.Update(services, nil, 7); err != nil {
		t.Fatal(err)
	}
	if err := store.Update(nil, []string{"leaves"}, 8); err != nil {
		t.Fatal(err)
	}
	for _, revision := range []int64{9, 0} { // the second time another agent of an earlier release has led
		if err := store.Doubt([]string{"web", "goes", "new"}, revision); err != nil {
			t.Fatal(err)
		}
		store = open(t, dir)
		if is := store.Revision(); is != 9 {
			t.Errorf("revision %d", is)
		}
	}
	if names, digests := store.Names(), store.Digests(); len(names)+len(digests) != 0 {
		t.Errorf("%v are wanted, %v are claimed", names, digests)
	}
	if doubted := store.Doubted(); !slices.Equal(doubted, []string{"goes", "new", "web"}) {
		t.Errorf("doubted are %v", doubted)
	}
	asked := &deliveryv1.SyncSpec{RequestTime: &timestamppb.Timestamp{Seconds: 1}}
	if err := store.Update([]desired.Service{{Name: "web", Digest: "2", Sync: asked}}, []string{"goes"}, 10); err != nil {
		t.Fatal(err)
	}
	store = open(t, dir)
	web, want := store.Get("web")
	if want != desired.Apply || !web.AskedBefore || web.Mask() == nil || web.Mask()("before-all") != desired.Masked {
		t.Errorf("web is %v, %v", web, want)
	}
	goes, want := store.Get("goes")
	if want != desired.Remove || goes.Sync != nil || goes.Mask() == nil || goes.Mask()("of-goes") != desired.Masked {
		t.Errorf("goes is %v, %v", goes, want)
	}
	if doubted := store.Doubted(); !slices.Equal(doubted, []string{"new"}) {
		t.Errorf("doubted are %v", doubted)
	}
}

// A cluster that was deleted in the catalog and made again wants nothing of what it wanted before.
func TestWhatAnotherClusterOfTheSameNameWantedIsDoubted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := open(t, dir)
	belong := func(uid string, doubted ...string) {
		t.Helper()
		if err := store.BelongTo(uid); err != nil {
			t.Fatal(err)
		}
		store = open(t, dir)
		if is := store.Doubted(); !slices.Equal(is, doubted) {
			t.Errorf("cluster %q: doubted are %v, want %v", uid, is, doubted)
		}
	}
	update := func(name string) {
		t.Helper()
		if err := store.Update([]desired.Service{{Name: name, Digest: "1"}}, nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	update("web")
	belong("old") // an earlier release did not write it down
	belong("")    // a hub that does not say
	belong("old")
	if err := store.Update(nil, []string{"left"}, 0); err != nil {
		t.Fatal(err)
	}
	belong("new", "left", "web")
	if names := store.Names(); len(names) > 0 {
		t.Errorf("%v are wanted", names)
	}
	update("web")
	belong("new", "left")
	if _, is := store.Get("web"); is != desired.Apply {
		t.Error("what the new cluster wants was dropped")
	}
	belong("third", "left", "web")
}
