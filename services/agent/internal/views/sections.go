package views

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/clusterview"
)

// Bounds of a view: it is a summary, and 10,000 of them stand in the memory of a console.
const (
	maxNodeRows, maxPodRows, maxPullRows, maxWorkloadRows, maxClaimRows, maxWarningRows, maxServiceRows = 100, 100, 50, 100, 50, 50, 200
	// maxStates is how many states of pods are counted by name; the pods of others are counted together.
	maxStates = 24
	// maxView is how large a view is, in bytes: rows beyond are withheld.
	maxView = 16 << 10
)

// Sections counts the view. ok is false while nothing is known of a kind: not even that it can't be followed.
func (v *View) Sections() (sections []*deliveryv1.ViewSection, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.owners.ask(v.Now(), v.Services)
	for _, k := range v.kinds {
		if k.state == deliveryv1.SectionState_SECTION_STATE_UNSPECIFIED && (!k.spare || v.Now().Before(v.patient)) {
			return nil, false
		}
	}
	workloads := clusterview.WorkloadKinds()
	sections = []*deliveryv1.ViewSection{
		v.section(clusterview.Nodes, v.nodeSection, "nodes"),
		v.section(clusterview.Requests, v.requestSection, "pods"),
		v.section(clusterview.Pods, v.podSection, "pods"),
		v.section(clusterview.Restarts, v.restartSection, "pods"),
		v.section(clusterview.Pulls, v.pullSection, "pods"),
		v.section(clusterview.Workloads, v.workloadSection, workloads...),
		v.section(clusterview.Claims, v.claimSection, "persistentvolumeclaims"),
		v.section(clusterview.Warnings, v.warningSection, "events"),
		v.section(clusterview.APIs, v.apiSection, kindVersions),
		v.section(clusterview.Services, v.serviceSection, append(workloads, "pods")...),
		v.section(clusterview.Used, v.usedSection, kindUsage),
		v.deprecatedSection(),
		v.section(clusterview.Agent, v.agentSection, kindEnds),
	}
	if v.owners.news {
		v.wake() // the next look asks for their services
	}
	sets := v.setSections()
	fit(sections, maxView-sizeOf(sets))
	return append(sections, sets...), true
}

// section counts one, and says how far it can be trusted by the kinds behind it. Without any of them there is nothing
// to count.
func (v *View) section(name string, count func(*deliveryv1.ViewSection), resources ...string) *deliveryv1.ViewSection {
	kinds := make([]*kind, len(resources))
	for i, resource := range resources {
		kinds[i] = v.kindOf(resource)
	}
	s := trusted(name, kinds)
	if slices.ContainsFunc(kinds, func(k *kind) bool { return k.known }) {
		s.Figures = map[string]int64{}
		count(s)
	}
	return s
}

// trusted is a section that says how far it can be trusted, by the kinds behind it.
func trusted(name string, kinds []*kind) *deliveryv1.ViewSection {
	s := &deliveryv1.ViewSection{Name: name, State: deliveryv1.SectionState_SECTION_STATE_WHOLE, Sample: 1}
	var reasons []string
	for _, k := range kinds {
		state := k.state // from whole on they get worse
		if state == deliveryv1.SectionState_SECTION_STATE_UNSPECIFIED {
			state = deliveryv1.SectionState_SECTION_STATE_READING
		}
		s.State = max(s.State, state)
		if k.reason != "" {
			reasons = append(reasons, k.reason)
		}
	}
	s.Reason = string(cut([]byte(strings.Join(reasons, "; ")), 512))
	return s
}

func (v *View) nodeSection(s *deliveryv1.ViewSection) {
	s.Sample = v.nodes.sample
	server := v.KubernetesVersion()
	skewed := map[string]bool{} // by version: a cluster has few
	list := newWorst(maxNodeRows, func(a, b *node) int {
		return cmp.Or(cmp.Compare(a.rank(skewed[a.version]), b.rank(skewed[b.version])), cmp.Compare(a.name, b.name))
	})
	var is struct{ ready, notReady, pressure, cordoned, skewed int64 }
	var capacity, allocatable amounts
	for n := range v.nodes.all() {
		if _, known := skewed[n.version]; !known {
			skewed[n.version] = isSkewed(n.version, server)
		}
		if n.ready {
			is.ready++
		} else {
			is.notReady++
		}
		if len(n.bad) > 0 {
			is.pressure++
		}
		if n.cordoned {
			is.cordoned++
		}
		if skewed[n.version] {
			is.skewed++
		}
		capacity, allocatable.pods = capacity.add(n.capacity), allocatable.pods+n.allocatable.pods
		allocatable = allocatable.add(n.allocatable)
		list.add(n)
	}
	f := counts{
		"total": int64(list.seen), "ready": is.ready, "not_ready": is.notReady, "pressure": is.pressure, "cordoned": is.cordoned, "skewed": is.skewed,
	}
	if list.seen > 0 {
		f["cpu_capacity"], f["memory_capacity"] = capacity.cpu, capacity.memory
		f["cpu_allocatable"], f["memory_allocatable"], f["pods_allocatable"] = allocatable.cpu, allocatable.memory, allocatable.pods
	}
	f.write(s, v.nodes.times)
	for _, n := range list.best {
		s.Rows = append(s.Rows, &deliveryv1.ViewRow{
			Key: n.name, Kind: "Node", Name: n.name, Reason: n.states(skewed[n.version]), Version: n.version, SinceTime: stamp(n.since),
			Figures: map[string]int64{"cpu_allocatable": n.allocatable.cpu, "memory_allocatable": n.allocatable.memory},
		})
	}
	s.Withheld = v.nodes.times(int64(list.seen)) - int64(len(s.GetRows()))
}

func (v *View) requestSection(s *deliveryv1.ViewSection) {
	s.Sample = v.pods.sample
	var placed, waiting amounts
	for p := range v.pods.all() {
		if !p.counted {
			continue
		}
		sum := &waiting
		if p.placed {
			sum = &placed
		}
		*sum = sum.add(p.requests)
		sum.pods++
	}
	counts{
		"cpu": placed.cpu, "memory": placed.memory, "pods": placed.pods,
		"waiting_cpu": waiting.cpu, "waiting_memory": waiting.memory, "waiting_pods": waiting.pods,
	}.write(s, v.pods.times)
}

func (v *View) podSection(s *deliveryv1.ViewSection) {
	s.Sample = v.pods.sample
	phases, states := map[string]int64{}, map[string]int64{}
	var total, notReady int64
	list := newWorst(maxPodRows, comparePods)
	for p := range v.pods.all() {
		total++
		phases[p.phase]++
		states[p.reason]++
		if p.notReady {
			notReady++
		}
		if p.notReady || p.phase == "Failed" {
			list.add(p)
		}
	}
	f := counts{"total": total, "not_ready": notReady}
	f.zeros(clusterview.Always(clusterview.Pods)...)
	for phase, n := range phases {
		f.addPhase(phase, n, "pending", "running", "succeeded", "failed")
	}
	names := slices.SortedFunc(maps.Keys(states), func(a, b string) int { return cmp.Or(cmp.Compare(states[b], states[a]), cmp.Compare(a, b)) })
	for i, name := range names {
		if i >= maxStates {
			f.add(clusterview.State+"others", states[name])
			continue
		}
		f.add(string(cut([]byte(clusterview.State+name), 128)), states[name])
	}
	f.write(s, v.pods.times)
	for _, p := range list.best {
		s.Rows = append(s.Rows, &deliveryv1.ViewRow{
			Key: p.namespace + "/" + p.name, Kind: "Pod", Namespace: p.namespace, Name: p.name, Reason: string(cut([]byte(p.reason), 128)),
			Service: v.serviceOf(p.service, p.owner), Node: p.node, SinceTime: stamp(p.since), Figures: map[string]int64{"restarts": p.total()},
		})
	}
	s.Withheld = v.pods.times(int64(list.seen)) - int64(len(s.GetRows()))
}

func comparePods(a, b *pod) int {
	return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(b.total(), a.total()), cmp.Compare(a.since, b.since),
		cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
}

// serviceOf is the service that manages an object or what made it, by way of its controllers. The last one may be of a
// kind that the view does not follow, such as a custom resource whose operator makes pods: the agent knows it if a
// service has it.
func (v *View) serviceOf(service, owner string) string {
	for range 4 { // Pod, ReplicaSet, Deployment; Pod, Job, CronJob
		if service != "" || owner == "" {
			break
		}
		found := false
		for _, t := range v.workloads {
			if r, ok := t.rows[owner]; ok {
				service, owner, found = r.record.service, r.record.owner, true
				break
			}
		}
		if !found {
			return v.owners.service(owner)
		}
	}
	return service
}

func (v *View) restartSection(s *deliveryv1.ViewSection) {
	now := v.Now().Unix()
	s.Sample = v.pods.sample
	s.Figures["hour"], s.Figures["oom_killed_hour"] = v.restarts.sum(now), v.killed.sum(now)
	if v.guessed > now-steps*stepSeconds {
		s.Figures[clusterview.AtLeast] = 1
	}
}

func (v *View) pullSection(s *deliveryv1.ViewSection) {
	s.Sample = v.pods.sample
	type waiting struct{ pods, since int64 }
	found := map[pull]waiting{}
	var pods int64
	for p := range v.pods.all() {
		if len(p.pulls) > 0 {
			pods++
		}
		for _, of := range p.pulls {
			w := found[of]
			w.pods++
			if w.since == 0 || p.since < w.since {
				w.since = p.since
			}
			found[of] = w
		}
	}
	s.Figures["pods"], s.Figures["images"] = v.pods.times(pods), int64(len(found))
	all := slices.SortedFunc(maps.Keys(found), func(a, b pull) int {
		return cmp.Or(cmp.Compare(found[b].pods, found[a].pods), cmp.Compare(a.image, b.image), cmp.Compare(a.reason, b.reason))
	})
	for _, of := range all[:min(len(all), maxPullRows)] {
		s.Rows = append(s.Rows, &deliveryv1.ViewRow{
			Key: of.image + " " + of.reason, Kind: "Image", Name: of.image, Reason: of.reason,
			SinceTime: stamp(found[of].since), Figures: map[string]int64{"pods": v.pods.times(found[of].pods)},
		})
	}
	s.Withheld = int64(len(all) - len(s.GetRows()))
}

func (v *View) workloadSection(s *deliveryv1.ViewSection) {
	f := counts{}
	f.zeros(clusterview.Always(clusterview.Workloads)...)
	list := newWorst(maxWorkloadRows, func(a, b *workload) int {
		return cmp.Or(cmp.Compare(a.ready, b.ready), cmp.Compare(a.kind, b.kind), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	})
	for kind, t := range v.workloads {
		s.Sample = max(s.Sample, t.sample)
		names := strings.ToLower(kind) + "s"
		if v.kindOf(names).known {
			f.add(names, 0)
			f.add(clusterview.NotWell(names), 0)
		}
		for w := range t.all() {
			if w.hidden {
				continue
			}
			f.add(names, t.times(1))
			f.add("total", t.times(1))
			switch {
			case kind == "Job" && w.status == "Failed":
				f.add("jobs_failed", t.times(1))
			case kind == "CronJob" && w.suspended:
				f.add("cronjobs_suspended", t.times(1))
			case kind != "Job" && kind != "CronJob":
				f.add("ready", t.times(int64(w.ready)))
				f.add("desired", t.times(int64(w.desired)))
			}
			if !w.well {
				f.add("not_well", t.times(1))
				f.add(clusterview.NotWell(names), t.times(1))
				list.add(w)
			}
		}
	}
	f.write(s, func(n int64) int64 { return n })
	for _, w := range list.best {
		s.Rows = append(s.Rows, &deliveryv1.ViewRow{
			Key: w.kind + "/" + w.namespace + "/" + w.name, Kind: w.kind, Namespace: w.namespace, Name: w.name, Reason: cmp.Or(w.status, w.of()),
			Service: v.serviceOf(w.service, w.owner), Figures: map[string]int64{"ready": int64(w.ready), "desired": int64(w.desired)},
		})
	}
	s.Withheld = int64(list.seen - len(s.GetRows()))
}

func (v *View) claimSection(s *deliveryv1.ViewSection) {
	s.Sample = v.claims.sample
	f := counts{}
	f.zeros(clusterview.Always(clusterview.Claims)...)
	list := newWorst(maxClaimRows, func(a, b *claim) int {
		return cmp.Or(cmp.Compare(a.phase, b.phase), cmp.Compare(a.created, b.created), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	})
	for c := range v.claims.all() {
		f.add("total", 1)
		f.addPhase(cmp.Or(c.phase, "pending"), 1, "bound", "pending", "lost", "terminating")
		if c.phase == "Bound" {
			f.add("bound_bytes", c.bytes)
		} else {
			list.add(c)
		}
	}
	f.write(s, v.claims.times)
	for _, c := range list.best {
		s.Rows = append(s.Rows, &deliveryv1.ViewRow{
			Key: c.namespace + "/" + c.name, Kind: "PersistentVolumeClaim", Namespace: c.namespace, Name: c.name,
			Reason: c.phase, Service: c.service, SinceTime: stamp(c.created),
		})
	}
	s.Withheld = v.claims.times(int64(list.seen)) - int64(len(s.GetRows()))
}

func (v *View) warningSection(s *deliveryv1.ViewSection) {
	now := v.Now().Unix()
	s.Sample = v.events.sample
	type told struct {
		group
		*counted
		sum int64
	}
	list := newWorst(maxWarningRows, func(a, b *told) int {
		return cmp.Or(cmp.Compare(b.sum, a.sum), cmp.Compare(b.last, a.last), cmp.Compare(a.namespace, b.namespace),
			cmp.Compare(a.owner, b.owner), cmp.Compare(a.reason, b.reason), cmp.Compare(a.kind, b.kind))
	})
	f := counts{}
	f.zeros(clusterview.Always(clusterview.Warnings)...)
	for of, c := range v.groups {
		sum := c.sum(now)
		if sum == 0 {
			continue
		}
		f.add("hour", sum)
		if c.guessed > now-steps*stepSeconds {
			f[clusterview.AtLeast] = 1
		}
		if of == others() {
			f.add(clusterview.Others, sum)
			continue
		}
		f.add("groups", 1)
		list.add(&told{of, c, sum})
	}
	f.write(s, func(n int64) int64 { return n })
	for _, w := range list.best {
		s.Rows = append(s.Rows, &deliveryv1.ViewRow{
			Key:  fmt.Sprintf("%s %s %s/%s", w.reason, w.kind, w.namespace, w.owner),
			Kind: w.kind, Namespace: w.namespace, Name: w.owner, Reason: w.reason, Text: w.text,
			SinceTime: stamp(w.first), LastTime: stamp(w.last), Figures: map[string]int64{"hour": w.sum},
		})
	}
	s.Withheld = int64(list.seen - len(s.GetRows()))
}

func (v *View) apiSection(s *deliveryv1.ViewSection) {
	s.Figures["groups"] = int64(len(v.versions))
	for _, of := range slices.Sorted(maps.Keys(v.versions)) {
		s.Figures["versions"] += int64(len(v.versions[of]))
		name := cmp.Or(of, "core")
		s.Rows = append(s.Rows, &deliveryv1.ViewRow{
			Key: name, Kind: "APIGroup", Name: string(cut([]byte(name), 256)),
			Text: string(cut([]byte(strings.Join(v.versions[of], " ")), maxText)),
		})
	}
}

func (v *View) serviceSection(s *deliveryv1.ViewSection) {
	s.Sample = v.pods.sample
	found := map[string]*made{}
	of := func(service string) *made {
		if found[service] == nil {
			found[service] = &made{}
		}
		return found[service]
	}
	byOwner := map[string]string{} // pods of one owner are of one service, unless they say another one themselves
	for p := range v.pods.all() {
		if p.terminal {
			continue
		}
		service := p.service
		if service == "" && p.owner != "" {
			known := false
			if service, known = byOwner[p.owner]; !known {
				service = v.serviceOf("", p.owner)
				byOwner[p.owner] = service
			}
		}
		if service == "" {
			continue
		}
		f := of(service)
		f.pods += v.pods.times(1)
		f.restarts += v.pods.times(p.total())
		if p.notReady {
			f.notReady += v.pods.times(1)
		} else if p.reason != "Terminating" {
			f.ready += v.pods.times(1)
		}
	}
	for kind, t := range v.workloads {
		s.Sample = max(s.Sample, t.sample) // pods are of a service by way of them
		for w := range t.all() {
			if w.hidden || w.well && kind != "Job" {
				continue
			}
			service := v.serviceOf(w.service, w.owner)
			if service == "" {
				continue
			}
			if !w.well {
				of(service).notWell += t.times(1)
			}
			if kind == "Job" {
				of(service).jobs += t.times(1)
				if w.status == "Failed" {
					of(service).jobsFailed += t.times(1)
				}
			}
		}
	}
	s.Figures["total"] = int64(len(found))
	names := slices.SortedFunc(maps.Keys(found), func(a, b string) int {
		return cmp.Or(cmp.Compare(found[b].notReady, found[a].notReady), cmp.Compare(a, b))
	})
	for _, name := range names[:min(len(names), maxServiceRows)] {
		s.Rows = append(s.Rows, &deliveryv1.ViewRow{Key: name, Kind: "Service", Name: name, Service: name, Figures: found[name].figures()})
	}
	s.Withheld = int64(len(names) - len(s.GetRows()))
}

// made is what a service, and what its objects made, has.
type made struct{ pods, ready, notReady, restarts, notWell, jobs, jobsFailed int64 }

func (m *made) figures() map[string]int64 {
	f := map[string]int64{"pods": m.pods, "ready": m.ready, "not_ready": m.notReady, "restarts": m.restarts}
	for name, n := range map[string]int64{"workloads_not_well": m.notWell, "jobs": m.jobs, "jobs_failed": m.jobsFailed} {
		if n > 0 {
			f[name] = n
		}
	}
	return f
}

// counts adds figures up.
type counts map[string]int64

func (c counts) add(name string, n int64) { c[name] += n }

// addPhase adds to the figure of a phase, or to unknown if it is none of those: the API server lets in phases that
// Kubernetes does not have, and any number of them.
func (c counts) addPhase(phase string, n int64, known ...string) {
	name := strings.ToLower(phase)
	if !slices.Contains(known, name) {
		name = clusterview.Unknown
	}
	c.add(name, n)
}

// zeros makes figures known that nothing adds to.
func (c counts) zeros(names ...string) {
	for _, name := range names {
		c[name] += 0
	}
}

func (c counts) write(s *deliveryv1.ViewSection, times func(int64) int64) {
	for name, n := range c {
		s.Figures[name] = times(n)
	}
}

// worst keeps the first of many in an order.
type worst[T any] struct {
	most    int
	compare func(a, b T) int
	best    []T
	seen    int
}

func newWorst[T any](most int, compare func(a, b T) int) *worst[T] {
	return &worst[T]{most: most, compare: compare}
}

func (w *worst[T]) add(one T) {
	w.seen++
	if len(w.best) == w.most && w.compare(one, w.best[w.most-1]) >= 0 {
		return
	}
	at, _ := slices.BinarySearchFunc(w.best, one, w.compare)
	if w.best = slices.Insert(w.best, at, one); len(w.best) > w.most {
		w.best = w.best[:w.most]
	}
}

func stamp(seconds int64) *timestamppb.Timestamp {
	if seconds <= 0 {
		return nil
	}
	return &timestamppb.Timestamp{Seconds: seconds}
}

func sizeOf(sections []*deliveryv1.ViewSection) (size int) {
	for _, s := range sections {
		size += proto.Size(s)
	}
	return size
}

// fit withholds rows until sections are not larger than most: of the section that takes the most, the last ones.
func fit(sections []*deliveryv1.ViewSection, most int) {
	sizes, total := make([]int, len(sections)), 0
	for i, s := range sections {
		sizes[i] = proto.Size(s)
		total += sizes[i]
	}
	for total > most {
		largest := 0
		for i := range sections {
			if len(sections[i].GetRows()) > 0 && (sizes[i] > sizes[largest] || len(sections[largest].GetRows()) == 0) {
				largest = i
			}
		}
		s := sections[largest]
		last := len(s.GetRows()) - 1
		if last < 0 {
			return
		}
		size := proto.Size(s.GetRows()[last]) + 2 // tag and length
		s.Rows = s.GetRows()[:last]
		s.Withheld++
		sizes[largest] -= size
		total -= size
	}
}
