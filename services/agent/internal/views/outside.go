package views

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/clusterview"
	"fairlead.dev/services/agent/internal/cluster"
)

// Kinds that have no watch.
const (
	kindVersions  = "API versions"
	kindUsage     = "usage of nodes"
	kindRequested = "requests of deprecated APIs"
	kindEnds      = "credentials of the agent"
)

const (
	// usedShare and usedAfter say when what nodes use is news: a change of a twentieth of what they can give at once,
	// another one after a while. Usage never stands still; a cluster where nothing else happens must not push each
	// minute.
	usedShare, usedAfter = 20, 15 * time.Minute
	maxDeprecatedRows    = 50
	maxEndRows           = 20
	// maxOwners bounds the owners of unknown kinds whose services are remembered; ownersFor is how long an answer
	// holds, and after ownersKept those that are gone are forgotten.
	maxOwners, ownersFor, ownersKept = 10_000, time.Minute, time.Hour
)

// usage is what nodes use as the view says it.
type usage struct {
	cluster.Usage
	at time.Time
}

func (v *View) lookAtUsage(ctx context.Context) error {
	now, err := v.Cluster.Usage(ctx)
	if err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.takeUsage(now) {
		v.wake()
	}
	return nil
}

// takeUsage takes over what nodes use, if that is news.
func (v *View) takeUsage(now cluster.Usage) (changed bool) {
	var cpu, memory int64
	for n := range v.nodes.all() {
		cpu, memory = cpu+v.nodes.times(n.allocatable.cpu), memory+v.nodes.times(n.allocatable.memory)
	}
	was, known := v.used, v.kindOf(kindUsage).known
	moved := func(before, after, of int64) bool { return max(before-after, after-before) > max(of, before)/usedShare }
	if known && was.Nodes == now.Nodes && !moved(was.CPU, now.CPU, cpu) && !moved(was.Memory, now.Memory, memory) &&
		(v.Now().Sub(was.at) < usedAfter || was.Usage == now) {
		return false
	}
	v.used = usage{now, v.Now()}
	return true
}

func (v *View) usedSection(s *deliveryv1.ViewSection) {
	s.Figures["nodes"], s.Figures["cpu"], s.Figures["memory"] = v.used.Nodes, v.used.CPU, v.used.Memory
}

func (v *View) lookAtRequested(ctx context.Context) error {
	found, err := v.Cluster.RequestedDeprecated(ctx)
	if err != nil {
		return err
	}
	v.mu.Lock()
	v.requested = found
	v.mu.Unlock()
	v.wake()
	return nil
}

// deprecatedSection lists the deprecated APIs in use: what Fairlead uses is known always, what others request where the
// agent may read the metrics of the API server.
func (v *View) deprecatedSection() *deliveryv1.ViewSection {
	s := v.section(clusterview.Deprecated, func(*deliveryv1.ViewSection) {}, kindRequested)
	found := map[cluster.DeprecatedAPI]string{}
	if s.GetFigures() != nil {
		for _, one := range v.requested {
			found[one] = "Requested"
		}
	}
	var own int64
	for _, one := range v.deprecated() {
		own++
		found[one] = "Applied"
	}
	if s.GetFigures() != nil {
		s.Figures["total"] = int64(len(found))
	} else {
		s.Figures = map[string]int64{}
	}
	s.Figures["applied"] = own
	all := slices.SortedFunc(maps.Keys(found), func(a, b cluster.DeprecatedAPI) int {
		removedA, okA := minor("v" + a.Removed)
		removedB, okB := minor("v" + b.Removed)
		return cmp.Or(strings.Compare(found[a], found[b]), compareBool(okB, okA), cmp.Compare(removedA, removedB), strings.Compare(a.String(), b.String()))
	})
	for _, one := range all[:min(len(all), maxDeprecatedRows)] {
		name := string(cut([]byte(one.GroupVersion().String()+" "+one.Resource), 256))
		s.Rows = append(s.Rows, &deliveryv1.ViewRow{
			Key: name, Kind: "DeprecatedAPI", Name: name, Reason: found[one],
			Version: string(cut([]byte(one.Removed), maxKind)),
		})
	}
	s.Withheld = int64(len(all) - len(s.GetRows()))
	return s
}

// deprecated are the deprecated APIs that the agent itself used.
func (v *View) deprecated() []cluster.DeprecatedAPI {
	if v.Cluster == nil {
		return nil
	}
	return v.Cluster.UsedDeprecated()
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// End is a credential or a certificate that the agent works with.
type End struct {
	// Kind is Token or Certificate, and Name says what for.
	Kind, Name  string
	Begin, Ends time.Time
}

// soon tells whether an end is near: a tenth of its life is left, at most 30 days. Tokens are renewed long before that.
func (e End) soon(now time.Time) bool {
	const most = 30 * 24 * time.Hour
	return e.Ends.Sub(now) < min(e.Ends.Sub(e.Begin)/10, most)
}

func (v *View) lookAtEnds(context.Context) error {
	var found []End
	if v.Ends != nil {
		found = v.Ends()
	}
	v.mu.Lock()
	v.ends = found
	v.mu.Unlock()
	v.wake()
	return nil
}

// agentSection says which credentials end. Those that are renewed all the time are rows only if they are not: their
// ends move.
func (v *View) agentSection(s *deliveryv1.ViewSection) {
	now := v.Now()
	s.Figures["credentials"] = int64(len(v.ends))
	s.Figures["end_soon"], s.Figures["ended"] = 0, 0
	listed := slices.SortedFunc(slices.Values(v.ends), func(a, b End) int { return cmp.Or(a.Ends.Compare(b.Ends), strings.Compare(a.Name, b.Name)) })
	seen := map[string]bool{}
	for _, e := range listed {
		state := "Valid"
		switch {
		case !now.Before(e.Ends):
			state = "Ended"
			s.Figures["ended"]++
		case e.soon(now):
			state = "EndsSoon"
			s.Figures["end_soon"]++
		}
		key := string(cut([]byte(e.Kind+" "+printable(e.Name)), 256))
		if e.Kind == "Token" && state == "Valid" || seen[key] {
			continue
		}
		if len(s.GetRows()) == maxEndRows {
			s.Withheld++
			continue
		}
		seen[key] = true
		s.Rows = append(s.Rows, &deliveryv1.ViewRow{
			Key: key, Kind: e.Kind, Name: string(cut([]byte(printable(e.Name)), maxText)), Reason: state,
			SinceTime: stamp(e.Begin.Unix()), LastTime: stamp(e.Ends.Unix()),
		})
	}
}

// owners are the services of owners of kinds that the view does not follow, by uid. The lock of View guards it.
type owners struct {
	services map[string]string // "": of none
	met      map[string]bool   // uids that were looked up since began
	news     bool              // there are uids that nobody was asked about
	asked    time.Time
	began    time.Time
}

// service is the one that has an owner, as far as that is known.
func (o *owners) service(uid string) string {
	service, known := o.services[uid]
	if !known && o.services != nil && len(o.services) < maxOwners {
		o.services[uid], o.news, known = "", true, true
	}
	if known {
		o.met[uid] = true
	}
	return service
}

// ask asks for the services of all owners that were met, if there are new ones or the answers are old.
func (o *owners) ask(now time.Time, services func(map[string]string)) {
	if services == nil {
		return
	}
	if o.services == nil {
		o.services, o.met, o.began = map[string]string{}, map[string]bool{}, now
	}
	if now.Sub(o.began) > ownersKept {
		maps.DeleteFunc(o.services, func(uid, _ string) bool { return !o.met[uid] })
		clear(o.met)
		o.began = now
	}
	if len(o.services) == 0 || !o.news && now.Sub(o.asked) < ownersFor {
		return
	}
	for uid := range o.services {
		o.services[uid] = ""
	}
	services(o.services)
	o.news, o.asked = false, now
}
