package attack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	"fairlead.dev/e2e/attack/githost"
	"fairlead.dev/e2e/process"
)

// lyingAPI is a server that cluster a's API server hands the requests for some groups to (APIServices): it is honest,
// or answers the agent as the attacks say. To the API server itself it is always honest, so that this goes on asking
// it.
type lyingAPI struct {
	*httptest.Server

	mu      sync.Mutex // guards what follows
	groups  map[string]*lyingGroup
	version int
}

// lyingGroup is one group of kinds.
type lyingGroup struct {
	lie     http.HandlerFunc
	lied    int           // requests that were answered with the lie
	changed chan struct{} // closed when the lie changes: watches end then
	things  map[string]map[string]any
}

// groupOf is the name of the group in which a lie is told.
func groupOf(slug string) string { return slug + ".evil.example" }

func newLyingAPI() *lyingAPI {
	l := &lyingAPI{groups: map[string]*lyingGroup{}}
	l.Server = httptest.NewTLSServer(l)
	return l
}

// tell answers the agent in a group with a lie from now on; nil: honestly.
func (l *lyingAPI) tell(group string, lie http.HandlerFunc) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.groups[group]
	if g == nil {
		g = &lyingGroup{things: map[string]map[string]any{}, changed: make(chan struct{})}
		l.groups[group] = g
	}
	g.lie, g.lied = lie, 0
	close(g.changed)
	g.changed = make(chan struct{})
}

func (l *lyingAPI) heard(group string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.groups[group].lied
}

// ServeHTTP implements http.Handler.
func (l *lyingAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/apis/"), "/")
	l.mu.Lock()
	g := l.groups[name]
	var lie http.HandlerFunc
	if g != nil && strings.HasPrefix(r.UserAgent(), "fairlead-agent/") && g.lie != nil {
		lie = g.lie
		g.lied++
	}
	l.mu.Unlock()
	switch {
	case g == nil:
		http.NotFound(w, r)
	case lie != nil:
		lie(w, r)
	default:
		l.honest(w, r)
	}
}

// honest is as much of an API server as the agent needs for one kind.
func (l *lyingAPI) honest(w http.ResponseWriter, r *http.Request) {
	group, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/apis/"), "/")
	name, named := strings.CutPrefix(rest, "v1/namespaces/tenant/things/")
	l.mu.Lock()
	g, version := l.groups[group], l.version
	l.mu.Unlock()
	switch {
	case rest == "":
		fmt.Fprintf(w, `{"kind":"APIGroup","apiVersion":"v1","name":%q,"versions":[{"groupVersion":"%[1]s/v1","version":"v1"}],"preferredVersion":{"groupVersion":"%[1]s/v1","version":"v1"}}`, group)
	case rest == "v1":
		fmt.Fprintf(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"%s/v1","resources":[{"name":"things","singularName":"thing","namespaced":true,"kind":"Thing","verbs":["get","list","watch","create","patch","update","delete"]}]}`, group)
	case named && r.Method == http.MethodPatch:
		l.patch(w, r, g, name)
	case named:
		l.mu.Lock()
		defer l.mu.Unlock()
		thing := g.things[name]
		if thing == nil {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","message":"there is none","details":{"name":%q,"group":%q,"kind":"things"},"code":404}`, name, group)
			return
		}
		if r.Method == http.MethodDelete {
			delete(g.things, name)
		}
		_ = json.NewEncoder(w).Encode(as(r, thing)) // a write that fails shows at the agent
	case strings.HasSuffix(rest, "/things") && watches(r):
		l.watch(w, r, g)
	case strings.HasSuffix(rest, "/things"):
		l.mu.Lock()
		defer l.mu.Unlock()
		items := []any{}
		for _, thing := range g.things {
			items = append(items, as(r, thing))
		}
		_ = json.NewEncoder(w).Encode(as(r, map[string]any{"kind": "ThingList", "apiVersion": group + "/v1", "metadata": map[string]any{"resourceVersion": fmt.Sprint(version)}, "items": items})) // as above
	default:
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`) // as above
	}
}

func watches(r *http.Request) bool { return r.URL.Query().Get("watch") != "" }

// as is an object as it was asked for: whole, or its metadata.
func as(r *http.Request, thing map[string]any) map[string]any {
	kind, version := thing["kind"], thing["apiVersion"]
	if strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata") {
		version = "meta.k8s.io/v1"
		if kind = "PartialObjectMetadata"; thing["items"] != nil {
			kind = "PartialObjectMetadataList"
		}
	}
	out := map[string]any{"kind": kind, "apiVersion": version, "metadata": thing["metadata"]}
	for _, field := range []string{"items", "data"} {
		if thing[field] != nil {
			out[field] = thing[field]
		}
	}
	return out
}

// patch takes an apply for what is to be.
func (l *lyingAPI) patch(w http.ResponseWriter, r *http.Request, g *lyingGroup, name string) {
	var sent map[string]any
	if err := json.NewDecoder(io.LimitReader(r.Body, most)).Decode(&sent); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.version++
	meta, _ := sent["metadata"].(map[string]any)
	if meta == nil {
		meta = map[string]any{}
	}
	meta["name"], meta["namespace"], meta["uid"], meta["resourceVersion"] = name, "tenant", "00000000-0000-4000-8000-00000000aaaa", fmt.Sprint(l.version)
	meta["creationTimestamp"] = "2026-01-01T00:00:00Z"
	sent["metadata"] = meta
	if !r.URL.Query().Has("dryRun") {
		g.things[name] = sent
	}
	_ = json.NewEncoder(w).Encode(as(r, sent)) // as above
}

// watch tells of what there is, and is silent until the lie changes.
func (l *lyingAPI) watch(w http.ResponseWriter, r *http.Request, g *lyingGroup) {
	l.mu.Lock()
	changed := g.changed
	events := []map[string]any{}
	apiVersion := strings.TrimPrefix(r.URL.Path, "/apis/")
	apiVersion, _, _ = strings.Cut(apiVersion, "/")
	for _, thing := range g.things {
		events = append(events, map[string]any{"type": "ADDED", "object": as(r, thing)})
	}
	bookmark := map[string]any{"kind": "Thing", "apiVersion": apiVersion + "/v1", "metadata": map[string]any{"resourceVersion": fmt.Sprint(l.version), "annotations": map[string]any{"k8s.io/initial-events-end": "true"}}}
	l.mu.Unlock()
	for _, event := range append(events, map[string]any{"type": "BOOKMARK", "object": as(r, bookmark)}) {
		_ = json.NewEncoder(w).Encode(event) // as above
	}
	_ = http.NewResponseController(w).Flush() // as above
	select {
	case <-changed:
	case <-r.Context().Done():
	}
}

// gigabyte is text of a JSON value that does not end for a GiB.
func gigabyte(w io.Writer, before string) {
	_, err := io.WriteString(w, before+`"`)
	for piece, n := strings.Repeat("x", 1<<20), 0; err == nil && n < 1<<10; n++ {
		_, err = io.WriteString(w, piece)
	}
}

// register has cluster a's API server hand groups to the lying server, and takes that back in the end.
func (t *Try) register(ctx context.Context, api *lyingAPI, groups ...string) (undo func(), err error) {
	kube := t.world.Clusters[0].Kubeconfig
	undo = func() {
		for _, group := range groups {
			_, _ = t.world.Kubectl(context.WithoutCancel(ctx), kube, "delete", "--ignore-not-found", "--wait=false", "apiservice", "v1."+group) // the cluster ends with the stack
		}
		api.CloseClientConnections()
		api.Close()
	}
	_, port, err := net.SplitHostPort(strings.TrimPrefix(api.URL, "https://"))
	if err != nil {
		return undo, err
	}
	objects := `{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"Service","metadata":{"name":"evil","namespace":"default"},"spec":{"type":"ExternalName","externalName":"localhost"}}`
	for _, group := range groups {
		objects += fmt.Sprintf(`,{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","metadata":{"name":"v1.%[1]s"},"spec":{"group":%[1]q,"version":"v1","groupPriorityMinimum":100,"versionPriority":100,"insecureSkipTLSVerify":true,"service":{"name":"evil","namespace":"default","port":%[2]s}}}`, group, port)
	}
	if _, err := process.Run(ctx, nil, objects+"]}", t.world.bins.Kubelocal, "kubectl", "--kubeconfig", kube, "apply", "-f", "-"); err != nil {
		return undo, err
	}
	for _, group := range groups {
		err := process.Await(ctx, "the API server knows the group", func(ctx context.Context) error {
			_, err := t.world.Kubectl(ctx, kube, "-n", "tenant", "get", "things."+group)
			return err
		})
		if err != nil {
			return undo, err
		}
	}
	return undo, nil
}

// thingOf pushes a service of one Thing in a group.
func (n *neighbour) thingOf(ctx context.Context, names ...string) error {
	files := map[string]string{}
	var resources strings.Builder
	for _, name := range names {
		files[name+"/a.yaml"] = fmt.Sprintf("apiVersion: %s/v1\nkind: Thing\nmetadata: {name: thing}\ndata: {a: b}\n", groupOf(name))
		fmt.Fprintf(&resources, "---\napiVersion: fairlead.dev/v1\nkind: Service\nmetadata: {name: %[1]s}\nspec: {source: sample, path: %[1]s, cluster: a, namespace: tenant, project: tenant}\n", name)
	}
	if _, err := n.repo.Push(ctx, "things", files); err != nil {
		return err
	}
	return n.try.world.apply(ctx, resources.String())
}

// lyingStatus answers with an error of the Kubernetes API.
func lyingStatus(code int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":%q,"code":%d}`, text, code)
	}
}

// lyingServer applies objects of kinds whose API server lies, each in another way, while another service of the cluster
// is pushed to.
func (t *Try) lyingServer(ctx context.Context) (string, error) {
	if err := t.world.deploy(ctx); err != nil {
		return "", err
	}
	elsewhere := githost.New()
	defer elsewhere.Close()
	api := newLyingAPI()
	lies := map[string]http.HandlerFunc{
		"lie-503": lyingStatus(http.StatusServiceUnavailable, "not now"),
		"lie-410": lyingStatus(http.StatusGone, "too old"),
		"lie-kinds": func(w http.ResponseWriter, _ *http.Request) {
			gigabyte(w, `{"kind":"APIResourceList","resources":[{"name":`)
		},
		"lie-objects": func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/v1") || watches(r) {
				api.honest(w, r)
				return
			}
			gigabyte(w, `{"kind":"Thing","metadata":{"name":"thing","namespace":"tenant"},"data":{"a":`)
		},
		"lie-errors": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
			gigabyte(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":`)
		},
		"lie-redirects": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL+r.URL.RequestURI(), http.StatusTemporaryRedirect) //nolint:gosec // this is the attack
		},
		"lie-events": func(w http.ResponseWriter, r *http.Request) {
			if watches(r) {
				gigabyte(w, `{"type":"ADDED","object":{"kind":"Thing","metadata":{"name":"thing","namespace":"tenant"},"data":{"a":`)
				return
			}
			api.honest(w, r)
		},
	}
	names := slices.Sorted(maps.Keys(lies))
	var groups []string
	for _, name := range names {
		groups = append(groups, groupOf(name))
		api.tell(groupOf(name), lies[name])
	}
	undo, err := t.register(ctx, api, groups...)
	defer undo()
	if err != nil {
		return "", err
	}
	n, err := t.newNeighbour(ctx, "beside-the-lies")
	if err != nil {
		return "", err
	}
	if err := n.thingOf(ctx, names...); err != nil {
		return "", err
	}
	var longest time.Duration
	for range 3 {
		took, err := n.ship(ctx)
		if err != nil {
			return "", fmt.Errorf("the lies hold up another service: %w", err)
		}
		longest = max(longest, took)
	}
	var words []string
	for _, name := range names {
		err := process.Await(ctx, "the agent hears the lie", func(ctx context.Context) error {
			told, err := t.told(ctx, name)
			switch {
			case err != nil:
				return err
			case api.heard(groupOf(name)) == 0:
				return errors.New("it asked for nothing")
			case name != "lie-events" && told.trouble() == "":
				return fmt.Errorf("it is %s", told.Service.Status.State)
			case told.Service.Status.State == "SERVICE_STATE_HEALTHY" && name != "lie-events":
				return errors.New("it is healthy")
			}
			return silentOf(told.trouble(), "xxxx")
		})
		if err != nil {
			return strings.Join(words, ", "), fmt.Errorf("%s: %w", name, err)
		}
		words = append(words, fmt.Sprintf("%s told %d times", name, api.heard(groupOf(name))))
	}
	if len(elsewhere.Seen()) > 0 {
		return strings.Join(words, ", "), errors.New("the redirect was followed")
	}
	return fmt.Sprintf("%s; another service in %.1f s at most", strings.Join(words, ", "), longest.Seconds()), nil
}

// silentServer applies an object whose API server is honest, and says nothing of it any more then: the object is not
// shown as healthy, and is again when the server is back.
func (t *Try) silentServer(ctx context.Context) (string, error) {
	const name = "fell-silent"
	if err := t.world.deploy(ctx); err != nil {
		return "", err
	}
	api := newLyingAPI()
	api.tell(groupOf(name), nil)
	undo, err := t.register(ctx, api, groupOf(name))
	defer undo()
	if err != nil {
		return "", err
	}
	n, err := t.newNeighbour(ctx, "beside-silence")
	if err != nil {
		return "", err
	}
	if err := n.thingOf(ctx, name); err != nil {
		return "", err
	}
	if err := t.awaitState(ctx, name, true); err != nil {
		return "", fmt.Errorf("the thing is not applied while its API is honest, so that this tries nothing: %w", err)
	}
	api.tell(groupOf(name), lyingStatus(http.StatusServiceUnavailable, "not now"))
	begin := time.Now()
	took, err := n.ship(ctx)
	if err != nil {
		return "", fmt.Errorf("it holds up another service: %w", err)
	}
	if err := t.awaitState(ctx, name, false); err != nil {
		return "", err
	}
	told, err := t.told(ctx, name)
	return fmt.Sprintf("after %.0f s: %s %s; another service in %.1f s", time.Since(begin).Seconds(), told.Service.Status.State, told.trouble(), took.Seconds()), err
}

// lookupHeap renders a chart that looks up 500 objects of 1 MiB.
func (t *Try) lookupHeap(ctx context.Context) (string, error) {
	const name, objects = "lookup-heap", 500
	if err := t.world.deploy(ctx); err != nil {
		return "", err
	}
	api, group := newLyingAPI(), groupOf(name)
	api.tell(group, nil)
	undo, err := t.register(ctx, api, group)
	defer undo()
	if err != nil {
		return "", err
	}
	n, err := t.newNeighbour(ctx, "beside-lookups")
	if err != nil {
		return "", err
	}
	large := fmt.Sprintf(`"apiVersion":"%s/v1","kind":"Thing","data":{"x":"%s"}`, group, strings.Repeat("x", 1<<20))
	api.tell(group, func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/namespaces/tenant/things") {
			api.honest(w, r)
			return
		}
		from, limit := 0, objects
		_, _ = fmt.Sscan(r.URL.Query().Get("continue"), &from) // else it is the first page
		_, _ = fmt.Sscan(r.URL.Query().Get("limit"), &limit)   // else it is all
		to, next := min(from+limit, objects), ""
		if to < objects {
			next = fmt.Sprint(to)
		}
		fmt.Fprintf(w, `{"apiVersion":"%s/v1","kind":"ThingList","metadata":{"resourceVersion":"1","continue":%q},"items":[`, group, next)
		for i := from; i < to; i++ {
			if _, err := fmt.Fprintf(w, `%s{"metadata":{"name":"x%d","namespace":"tenant"},%s}`, strings.Repeat(",", min(i-from, 1)), i, large); err != nil {
				return
			}
		}
		_, _ = io.WriteString(w, "]}") // a write that fails shows below
	})
	template := configMap(`{{ len (lookup "` + group + `/v1" "Thing" "tenant" "").items }}`)
	files := map[string]string{}
	for file, text := range chart(strings.Replace(template, "name: x", "name: "+name, 1)) {
		files[name+"/"+file] = text
	}
	if _, err := n.repo.Push(ctx, "a chart that looks up much", files); err != nil {
		return "", err
	}
	if err := t.world.apply(ctx, fmt.Sprintf("apiVersion: fairlead.dev/v1\nkind: Service\nmetadata: {name: %[1]s}\nspec: {source: sample, path: %[1]s, cluster: a, namespace: tenant, project: tenant}\n", name)); err != nil {
		return "", err
	}
	took, err := n.ship(ctx)
	if err != nil {
		return "", fmt.Errorf("it holds up another service: %w", err)
	}
	if err := t.awaitState(ctx, name, false); err != nil {
		return "", err
	}
	told, err := t.told(ctx, name)
	if err != nil {
		return "", err
	}
	if api.heard(group) == 0 {
		return told.trouble(), errors.New("nothing was looked up, so that this tries nothing")
	}
	return fmt.Sprintf("%s; another service in %.1f s", told.trouble(), took.Seconds()), says(told.trouble(), "templates/a.yaml", "finds more than", "MiB")
}

// told is what the hub tells of a service.
func (t *Try) told(ctx context.Context, name string) (told status, err error) {
	text, err := t.service(ctx, name)
	if err != nil {
		return told, err
	}
	return told, json.Unmarshal([]byte(text), &told)
}

// awaitState waits until a service is healthy; or until it is not, and is said why.
func (t *Try) awaitState(ctx context.Context, name string, healthy bool) error {
	return process.Await(ctx, fmt.Sprintf("%s is healthy: %v", name, healthy), func(ctx context.Context) error {
		told, err := t.told(ctx, name)
		if err != nil {
			return err
		}
		state := told.Service.Status.State
		if strings.Contains(told.trouble(), "is not in commit") || healthy != (state == "SERVICE_STATE_HEALTHY") || !healthy && told.trouble() == "" {
			return fmt.Errorf("it is %s: %s", state, told.trouble())
		}
		return nil
	})
}
