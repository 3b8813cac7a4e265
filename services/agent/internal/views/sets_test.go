package views

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"k8s.io/client-go/util/jsonpath"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	ours "fairlead.dev/platform/jsonpath"
	"fairlead.dev/platform/viewset"
)

// certificates is a set of a custom resource in a group.
func certificates(name, of string) *deliveryv1.NamedViewSet {
	return &deliveryv1.NamedViewSet{Name: name, Content: &deliveryv1.ViewSetContent{
		Of:         &deliveryv1.ViewSetOf{Group: of, Kind: "Certificate"},
		Counts:     []*deliveryv1.ViewCount{{Name: "issuer", Path: ".spec.issuerRef.name"}},
		Conditions: []string{"Ready"},
		Columns: []*deliveryv1.ViewColumn{
			{Name: "expires", Path: ".status.notAfter", Type: "date"},
			{Name: "names", Path: ".spec.dnsNames"},
			{Name: "renewals", Path: ".status.renewals", Type: "integer"},
		},
		Rows: &deliveryv1.ViewSetRows{Most: proto.Int32(5), NotTrue: []string{"Ready"}},
	}}
}

// plain is a view without a cluster.
func plain() *View {
	return New(Deps{KubernetesVersion: func() string { return "v1.37.2" }, Now: time.Now})
}

// knows puts objects into the only part of a set, as if all had come.
func (v *View) knows(at int, objects ...map[string]any) {
	p := v.sets[at].parts[0]
	for _, o := range objects {
		p.takeFields(o, metaOfFields(o), false)
	}
	p.known, p.state = true, deliveryv1.SectionState_SECTION_STATE_WHOLE
}

func certificate(name, issuer, ready string) map[string]any {
	o := map[string]any{
		"metadata": map[string]any{
			"name": name, "namespace": "shop", "uid": name, "creationTimestamp": "2026-11-01T10:00:00Z",
			"labels": map[string]any{"fairlead.dev/service": "web"},
		},
		"spec": map[string]any{"dnsNames": []any{"a.example", "https://me:secret@b.example"}},
	}
	if issuer != "" {
		o["spec"].(map[string]any)["issuerRef"] = map[string]any{"name": issuer} //nolint:forcetypeassert // above
	}
	if ready != "" {
		o["status"] = map[string]any{
			"notAfter": "2027-01-01T00:00:00Z", "renewals": json.Number("3"),
			"conditions": []any{map[string]any{
				"type": "Ready", "status": ready, "reason": "DoesNotExist",
				"lastTransitionTime": "2026-11-02T10:00:00Z",
			}},
		}
	}
	return o
}

func TestASetCountsAndListsWhatItSays(t *testing.T) {
	t.Parallel()
	v := plain()
	v.Want([]*deliveryv1.NamedViewSet{certificates("certificates", "example.com")})
	if s := v.setSections()[0]; s.GetFigures() != nil || s.GetState() != deliveryv1.SectionState_SECTION_STATE_READING {
		t.Errorf("before it is read: %v", s)
	}
	v.knows(0, certificate("a", "le", "True"), certificate("b", "le", "False"), certificate("c", "", ""))
	s := v.setSections()[0]
	want := map[string]int64{
		"total": 3, "issuer.le": 2, "issuer.none": 1, "Ready.true": 1, "Ready.false": 1, "Ready.unknown": 0,
		"Ready.none": 1,
	}
	for name, n := range want {
		if s.GetFigures()[name] != n {
			t.Errorf("%s is %d, want %d", name, s.GetFigures()[name], n)
		}
	}
	if len(s.GetFigures()) != len(want) || s.GetName() != "set-certificates" || s.GetWithheld() != 0 ||
		len(s.GetRows()) != 2 {
		t.Fatalf("got %v", s)
	}
	c, b := s.GetRows()[0], s.GetRows()[1]
	if c.GetName() != "c" || c.GetReason() != "Ready is not known" || c.GetCells()[0] != "" || c.GetService() != "web" {
		t.Errorf("got %v", c)
	}
	if b.GetReason() != "DoesNotExist" || b.GetSinceTime().AsTime().Day() != 2 ||
		!slices.Equal(b.GetCells(), []string{"2027-01-01T00:00:00Z", `["a.example","https://b.example"]`, "3"}) {
		t.Errorf("got %v", b)
	}
}

func TestASetIsBounded(t *testing.T) {
	t.Parallel()
	v := plain()
	var sets []*deliveryv1.NamedViewSet
	for i := range viewset.MaxAtCluster {
		set := certificates(fmt.Sprintf("set-%d", i), "example.com")
		set.Content.Rows.Most = proto.Int32(100)
		sets = append(sets, set)
	}
	v.Want(sets[:1])
	var objects []map[string]any
	for i := range 300 {
		objects = append(objects, certificate(fmt.Sprintf("c-%03d", i),
			fmt.Sprintf("%s-%d", strings.Repeat("i", 60), i%60), "False"))
	}
	v.knows(0, objects...)
	s := v.setSections()[0]
	if proto.Size(s) > maxSets || s.GetFigures()["total"] != 300 || int64(len(s.GetRows()))+s.GetWithheld() != 300 {
		t.Errorf("%d bytes, %d rows, %d withheld", proto.Size(s), len(s.GetRows()), s.GetWithheld())
	}
	var values int64
	for name, n := range s.GetFigures() {
		if strings.HasPrefix(name, "issuer.") {
			values += n
		}
	}
	if values != 300 || len(s.GetFigures()) > maxSetValues+7 {
		t.Errorf("%d of 300 by issuer, %d figures", values, len(s.GetFigures()))
	}
	v.Want(sets)
	for i := range sets {
		v.knows(i, objects...)
	}
	if size := sizeOf(v.setSections()); size > maxSets {
		t.Errorf("%d bytes of eight sets", size)
	}
	few := v.sets[0].parts[0].table
	few.most = 100
	v.knows(0, objects...)
	s = v.setSections()[0]
	if s.GetSample() < 2 || len(few.rows) > 100 || s.GetFigures()["total"] < 100 || s.GetFigures()["total"] > 900 {
		t.Errorf("a sample: %v of %d records", s, len(few.rows))
	}
}

func TestWhatNoViewShowsIsSaid(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*deliveryv1.ViewSetContent){
		"no view shows Secrets":   func(c *deliveryv1.ViewSetContent) { c.Of = &deliveryv1.ViewSetOf{Kind: "Secret"} },
		"no view shows .data.x":   func(c *deliveryv1.ViewSetContent) { c.Columns[0].Path = ".data.x" },
		"no view shows .metadata": func(c *deliveryv1.ViewSetContent) { c.Columns[0].Path = ".metadata" },
		"shows ['metadata']['annotations'].a": func(c *deliveryv1.ViewSetContent) {
			c.Counts[0].Path = "['metadata']['annotations'].a"
		},
		"does not know the path": func(c *deliveryv1.ViewSetContent) { c.Columns[0].Path = "..a" },
		"too old": func(c *deliveryv1.ViewSetContent) {
			c.Of.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 99,
				protowire.VarintType), 1))
		},
	} {
		v := plain()
		set := certificates("wrong", "example.com")
		change(set.GetContent())
		v.Want([]*deliveryv1.NamedViewSet{set, certificates("right", "example.com")})
		v.sets[1].parts[0].known = true
		sections := v.setSections()
		if s := sections[0]; s.GetState() != deliveryv1.SectionState_SECTION_STATE_WHOLE ||
			!strings.Contains(s.GetReason(), want) || s.GetFigures() != nil {
			t.Errorf("want %s, got %v", want, s)
		}
		if sections[1].GetFigures() == nil {
			t.Errorf("%s: the other set has no figures", want)
		}
	}
}

// A set that went is dropped by a whole push: no change of a view says that a section went.
func TestTheHubDropsASetThatWent(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	p, _, v := pushing(t, &now)
	v.Want([]*deliveryv1.NamedViewSet{certificates("certificates", "example.com")})
	first, have := p.request()
	p.answered(first, &deliveryv1.PushViewResponse{}, have)
	if have["set-certificates"] == nil {
		t.Fatalf("got %v", have)
	}
	v.Want(nil)
	second, have := p.request()
	if second.GetBase() != 0 || have["set-certificates"] != nil || len(second.GetSections()) != len(have) {
		t.Errorf("got %v", second)
	}
}

// A set that says something else, under the name that another one had, shows nothing of the other.
func TestASetThatSaysSomethingElseBeginsAnew(t *testing.T) {
	t.Parallel()
	v := plain()
	v.Want([]*deliveryv1.NamedViewSet{certificates("a", "example.com")})
	if len(v.setSections()) != 1 {
		t.Error("a set that is read after a start is left out: the hub would drop what it knows")
	}
	v.knows(0, certificate("a", "le", "True"))
	v.Want([]*deliveryv1.NamedViewSet{certificates("a", "example.org")})
	if got := v.setSections(); len(got) != 0 {
		t.Errorf("got %v", got)
	}
	v.knows(0)
	if got := v.setSections(); len(got) != 1 || got[0].GetFigures()["total"] != 0 {
		t.Errorf("got %v", got)
	}
}

// definition is a CRD of Certificates with versions of which all are served.
func definition(of string, versions ...string) obj {
	out := []any{}
	for i, name := range versions {
		out = append(out, obj{
			"name": name, "served": true, "storage": i == 0, "subresources": obj{"status": obj{}},
			"schema": obj{"openAPIV3Schema": obj{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
		})
	}
	return obj{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": obj{"name": "certificates." + of},
		"spec": obj{
			"group": of, "scope": "Namespaced", "names": obj{"kind": "Certificate", "plural": "certificates"},
			"versions": out,
		},
	}
}

// certificateHistory changes custom resources at random.
type certificateHistory struct {
	*world
	random *rand.Rand
	group  string
	path   string
	next   int
	names  map[string]bool
}

func (h *certificateHistory) step() {
	switch name := pick(h.random, h.names); {
	case name == "" || h.random.IntN(3) == 0:
		h.next++
		name = fmt.Sprintf("c-%d", h.next)
		spec := obj{"dnsNames": []any{name + ".example"}}
		if h.random.IntN(4) > 0 {
			spec["issuerRef"] = obj{"name": fmt.Sprintf("issuer-%d", h.random.IntN(3))}
		}
		h.post(h.path, obj{
			"apiVersion": h.group + "/v1beta1", "kind": "Certificate", "metadata": obj{"name": name}, "spec": spec,
		})
		h.names[name] = true
	case h.random.IntN(5) == 0:
		h.remove(h.path + "/" + name)
		delete(h.names, name)
	default:
		h.patch(h.path+"/"+name+"/status", obj{"status": obj{
			"renewals": h.random.IntN(1 << 40), "conditions": []any{
				obj{"type": "Issuing", "status": "True"},
				obj{"type": "Ready", "status": []string{"True", "False", "Unknown"}[h.random.IntN(3)], "reason": "R"},
			},
		}})
	}
}

// differences say where the section is not what the API server has, read by Kubernetes' own reader of paths.
func (h *certificateHistory) differences() (wrong []string) {
	h.t.Helper()
	var list struct{ Items []any }
	h.list(strings.Replace(h.path, "/namespaces/default", "", 1), &list)
	want := map[string]int64{"total": 0, "Ready.true": 0, "Ready.false": 0, "Ready.unknown": 0, "Ready.none": 0}
	for _, item := range list.Items {
		want["total"]++
		want["issuer."+foreign(h.t, ".spec.issuerRef.name", item, "none")]++
		want["Ready."+strings.ToLower(foreign(h.t, `.status.conditions[?(@.type=="Ready")].status`, item, "none"))]++
	}
	sections, _ := h.view.Sections()
	at := slices.IndexFunc(sections, func(s *deliveryv1.ViewSection) bool { return s.GetName() == "set-certificates" })
	if at < 0 {
		return []string{"there is no section"}
	}
	if names := sections[at+1].GetFigures(); names == nil || names["total"] != want["total"] ||
		names["namespace.default"] != want["total"] {
		wrong = append(wrong, fmt.Sprintf("by metadata %v, counted %d", sections[at+1], want["total"]))
	}
	s := sections[at]
	if s.GetState() != deliveryv1.SectionState_SECTION_STATE_WHOLE || len(s.GetFigures()) != len(want) {
		wrong = append(wrong, fmt.Sprintf("the section is %v", s))
	}
	for name, n := range want {
		if got, ok := s.GetFigures()[name]; !ok || got != n {
			wrong = append(wrong, fmt.Sprintf("%s is %d (known: %t), counted %d", name, got, ok, n))
		}
	}
	if rows := want["total"] - want["Ready.true"]; int64(len(s.GetRows()))+s.GetWithheld() != rows ||
		len(s.GetRows()) != int(min(rows, 5)) {
		wrong = append(wrong, fmt.Sprintf("%d rows and %d withheld, counted %d", len(s.GetRows()),
			s.GetWithheld(), rows))
	}
	return wrong
}

// foreign is what kubectl reads at a path.
func foreign(t *testing.T, path string, object any, without string) string {
	t.Helper()
	reader := jsonpath.New("path").AllowMissingKeys(true)
	if err := reader.Parse("{" + path + "}"); err != nil {
		t.Fatal(err)
	}
	found, err := reader.FindResults(object)
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 || len(found[0]) == 0 || found[0][0].Interface() == nil {
		return without
	}
	return fmt.Sprint(found[0][0].Interface())
}

func TestASetOfACustomResourceIsWhatADirectCountSays(t *testing.T) { //nolint:paralleltest // as of the whole view
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	w := newWorld(t)
	w.view.absentEvery = 100 * time.Millisecond
	h := &certificateHistory{
		world: w, random: rand.New(rand.NewPCG(seed, 1)), names: map[string]bool{}, // it can be run again
		group: fmt.Sprintf("t%d.example.com", seed),
	}
	h.path = "/apis/" + h.group + "/v1beta1/namespaces/default/certificates"
	is := func(when, reason string) {
		t.Helper()
		const state = deliveryv1.SectionState_SECTION_STATE_WHOLE // nothing is wrong
		w.await(when, func() []string {
			sections, _ := w.view.Sections()
			for _, s := range sections {
				if s.GetName() == "set-certificates" && s.GetState() == state &&
					strings.Contains(s.GetReason(), reason) && s.GetFigures() == nil {
					return nil
				}
			}
			return []string{fmt.Sprintf("the section is not %v", state)}
		})
	}
	const definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	w.run()
	w.view.Want([]*deliveryv1.NamedViewSet{certificates("certificates", h.group), {
		Name: "names", Content: &deliveryv1.ViewSetContent{ // of which metadata is enough
			Of: &deliveryv1.ViewSetOf{
				Group: h.group, Kind: "Certificate",
				Namespaces: []string{"default", "elsewhere"},
			},
			Counts: []*deliveryv1.ViewCount{{Name: "namespace", Path: ".metadata.namespace"}},
		},
	}})
	is("without the CRD", "the cluster has no Certificate of "+h.group)
	w.post(definitions, definition(h.group, "v1beta1"))
	w.await("once the CRD is there", h.served)
	w.await("with the CRD", h.differences)
	f := w.faults
	for round := range 8 {
		for range 10 {
			h.step()
		}
		what := "in a quiet round"
		switch round {
		case 1:
			what = "after the watches were cut"
			f.set(func() {})
		case 2, 5:
			what = "after the versions expired"
			var namespaces struct {
				Metadata struct{ ResourceVersion string }
			}
			h.list("/api/v1/namespaces", &namespaces)
			f.set(func() { f.expired = version(namespaces.Metadata.ResourceVersion) })
		case 3:
			what = "after the API server was down"
			f.set(func() { f.down = true })
			f.set(func() { f.down = false })
		case 4:
			what = "from pages"
			f.set(func() { f.paged = true })
		case 6:
			what = "with a version that is preferred"
			w.patch(definitions+"/certificates."+h.group, obj{"spec": definition(h.group, "v1beta1", "v1")["spec"]})
		case 7:
			what = "without the version that was followed"
			spec := definition(h.group, "v1", "v1beta1")["spec"].(obj) //nolint:forcetypeassert // of definition
			versions := spec["versions"].([]any)                       //nolint:forcetypeassert // of definition
			versions[1].(obj)["served"] = false                        //nolint:forcetypeassert // of definition
			w.patch(definitions+"/certificates."+h.group, obj{"spec": spec})
			h.path = strings.Replace(h.path, "v1beta1", "v1", 1)
			w.await("once the version is served", h.served)
		}
		w.await(fmt.Sprintf("round %d, %s,", round, what), h.differences)
	}
	w.remove(definitions + "/certificates." + h.group)
	is("without the CRD again", "the cluster has no Certificate")
	w.view.Want(nil)
	if sections, _ := w.view.Sections(); slices.ContainsFunc(sections, func(s *deliveryv1.ViewSection) bool { return strings.HasPrefix(s.GetName(), "set-") }) {
		t.Error("the section stays")
	}
}

// served waits for the API server to serve the resource: it needs a moment after a CRD.
func (h *certificateHistory) served() []string {
	if out := h.call(http.MethodGet, h.path, "application/json", nil); !strings.Contains(string(out), "CertificateList") {
		return []string{string(out)}
	}
	return nil
}

// What our reader of paths takes leads where Kubernetes' own leads.
func FuzzPathsLeadWhereKubectlFindsThem(f *testing.F) {
	object := certificate("web", "le", "True")
	for _, path := range []string{
		".metadata.name", ".metadata['name']", ".spec.dnsNames[1]", ".spec.dnsNames[-1]", ".spec.dnsNames[7]",
		`.status.conditions[?(@.type=="Ready")].status`, ".spec.issuerRef", ".status.renewals", "{.spec.absent.name}",
	} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, text string) {
		path, err := ours.Parse(text)
		// kubectl has another way to write a dot in a field, and reads $ and - otherwise.
		if quoted := strings.IndexAny(text, `'"`); err != nil || strings.ContainsAny(text, `\$-`) ||
			quoted >= 0 && strings.Contains(text[quoted:], ".") {
			return
		}
		reader := jsonpath.New("path").AllowMissingKeys(true)
		if reader.Parse("{"+strings.Trim(text, "{}")+"}") != nil {
			return
		}
		value, ok := path.Find(object)
		found, err := reader.FindResults(object)
		if err != nil { // a place that a list does not have, or a field of what has none
			if ok && value != nil {
				t.Fatalf("%s: found %v, and kubectl says %v", text, value, err)
			}
			return
		}
		if len(found) == 0 || len(found[0]) == 0 {
			if ok && value != nil {
				t.Fatalf("%s: found %v, and kubectl nothing", text, value)
			}
			return
		}
		if theirs := found[0][0].Interface(); fmt.Sprint(theirs) != fmt.Sprint(value) {
			t.Fatalf("%s: found %v, and kubectl %v", text, value, theirs)
		}
	})
}
