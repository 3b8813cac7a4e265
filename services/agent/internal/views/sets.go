package views

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/jsonpath"
	"fairlead.dev/platform/viewset"
	"fairlead.dev/services/agent/internal/cluster"
)

// Bounds of the ViewSets of a view.
const (
	// maxSetRecords bounds the records of one table, and maxAllRecords those of all sets together.
	maxSetRecords, maxAllRecords = 20_000, 40_000
	// maxSetValues is how many values of a field are figures; the objects of others are counted together.
	maxSetValues = 24
	// maxValue bounds a value that is a figure, and maxCell one that is shown, in bytes.
	maxValue, maxCell = 64, 64
	// maxSets bounds the sections of all sets together, in bytes.
	maxSets = 8 << 10
)

// What an object has that does not say.
const noValue, otherValues = "none", "others"

// set is a ViewSet that the view has.
type set struct {
	is      *deliveryv1.NamedViewSet
	problem string // why this agent can't keep it; empty: it can
	counts  []jsonpath.Path
	columns []jsonpath.Path
	parts   []*part
	stop    context.CancelFunc // nil: it is not followed
	// other: another set had its name. Until it is read the view leaves it out, or the hub would keep the figures of
	// the other.
	other bool
}

// part is what is followed of a set: all namespaces, or one.
type part struct {
	*kind
	table *table[setRecord]
}

// setRecord is what is kept of an object.
type setRecord struct {
	name, namespace, service, owner string
	reason                          string // of the first condition that is not True, of those that make a row
	since                           int64
	counts, conditions, cells       []string
	listed                          bool
}

func sameSetRecord(a, b setRecord) bool {
	return a.name == b.name && a.namespace == b.namespace && a.service == b.service &&
		a.owner == b.owner && a.reason == b.reason && a.since == b.since && a.listed == b.listed &&
		slices.Equal(a.counts, b.counts) && slices.Equal(a.conditions, b.conditions) && slices.Equal(a.cells, b.cells)
}

// Want says which ViewSets the view has from now on. Those that stay as they are are followed on.
func (v *View) Want(sets []*deliveryv1.NamedViewSet) {
	v.mu.Lock()
	defer v.mu.Unlock()
	var now []*set
	for _, is := range sets {
		at := slices.IndexFunc(v.sets, func(s *set) bool { return proto.Equal(s.is, is) })
		if at >= 0 {
			now = append(now, v.sets[at])
			continue
		}
		next := v.newSet(is)
		next.other = slices.ContainsFunc(v.sets, func(s *set) bool { return s.is.GetName() == is.GetName() })
		now = append(now, next)
	}
	for _, s := range v.sets {
		if s.stop != nil && !slices.Contains(now, s) {
			s.stop()
		}
	}
	v.sets = now
	parts := 0
	for _, s := range now {
		parts += len(s.parts)
	}
	for _, s := range now {
		for _, p := range s.parts {
			p.table.most = min(maxSetRecords, maxAllRecords/parts)
		}
		v.startSet(s)
	}
	v.wake()
}

// startSet follows a set, if the view runs and does not yet, with mu held.
func (v *View) startSet(s *set) {
	if v.start == nil || s.stop != nil {
		return
	}
	s.stop = v.start(s.parts)
}

// newSet reads what a set says. What this agent does not know, or what no view may have, is said in its section.
func (v *View) newSet(is *deliveryv1.NamedViewSet) *set {
	s := &set{is: is}
	content := is.GetContent()
	if unknown(content.ProtoReflect()) {
		s.problem = "the agent is too old for something that the ViewSet says: upgrade it"
		return s
	}
	for _, count := range content.GetCounts() {
		s.counts = append(s.counts, s.path(count.GetName(), count.GetPath()))
	}
	for _, column := range content.GetColumns() {
		s.columns = append(s.columns, s.path(column.GetName(), column.GetPath()))
	}
	if viewset.IsSecret(content.GetOf()) {
		s.problem = errSecret.Error()
	}
	if s.problem != "" {
		return s
	}
	namespaces := content.GetOf().GetNamespaces()
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	for _, namespace := range namespaces {
		s.parts = append(s.parts, v.newPart(s, namespace))
	}
	return s
}

// path reads a path. The hub has refused what it does not know; an agent that is older knows less.
func (s *set) path(name, text string) jsonpath.Path {
	path, err := jsonpath.Parse(text)
	switch {
	case err != nil:
		s.problem = fmt.Sprintf("%s: the agent does not know the path %s: %v", name, text, err)
	case viewset.Hides(path):
		s.problem = fmt.Sprintf("%s: no view shows %s", name, text)
	}
	return path
}

// unknown tells whether a message, or one within it, says what this agent does not know.
func unknown(m protoreflect.Message) (found bool) {
	if len(m.GetUnknown()) > 0 {
		return true
	}
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.Message() == nil:
		case field.IsList():
			for i := range value.List().Len() {
				found = found || unknown(value.List().Get(i).Message())
			}
		case !field.IsMap():
			found = unknown(value.Message())
		}
		return !found
	})
	return found
}

var errSecret = errors.New("no view shows Secrets and ConfigMaps")

// newPart is a part of a set that is not followed yet.
func (v *View) newPart(s *set, namespace string) *part {
	of := s.is.GetContent().GetOf()
	p := &part{table: newTable(maxSetRecords, sameSetRecord)}
	where := "in all namespaces"
	if namespace != "" {
		where = "in namespace " + namespace
	}
	what := of.GetKind()
	if of.GetGroup() != "" {
		what += " of " + of.GetGroup()
	}
	p.kind = &kind{
		resource: what, what: what + " " + where, form: cluster.JSON,
		begin: p.table.begin, thin: p.table.thin, complete: p.table.complete, forget: p.table.clear,
		takeFields: func(fields map[string]any, m meta, gone bool) bool {
			if gone {
				return p.table.remove(m.uid)
			}
			_, _, changed := p.table.put(m.uid, s.record(fields, m))
			return changed
		},
	}
	p.find = func(ctx context.Context) error {
		found, err := v.Cluster.Preferred(ctx, schema.GroupKind{Group: of.GetGroup(), Kind: of.GetKind()})
		if err != nil {
			return err
		}
		if found.Resource.Group == "" && (found.Resource.Resource == "secrets" || found.Resource.Resource == "configmaps") {
			return errSecret
		}
		p.path = found.Path(namespace)
		return nil
	}
	if s.metadataOnly() {
		p.form = cluster.Metadata
	}
	return p
}

// metadataOnly tells whether a set needs nothing but the metadata of objects.
func (s *set) metadataOnly() bool {
	c := s.is.GetContent()
	return len(c.GetConditions()) == 0 && len(c.GetRows().GetNotTrue()) == 0 &&
		!slices.ContainsFunc(slices.Concat(s.counts, s.columns), func(p jsonpath.Path) bool { return !p.Under("metadata") })
}

// record is what is kept of an object.
func (s *set) record(fields map[string]any, m meta) setRecord {
	content := s.is.GetContent()
	r := setRecord{name: m.name, namespace: m.namespace, service: m.service, owner: m.owner, since: m.created, listed: true}
	for _, path := range s.counts {
		value, _ := path.Find(fields)
		r.counts = append(r.counts, cmp.Or(shownAs(value, "", maxValue), noValue))
	}
	conditions := conditionsOf(fields)
	for _, name := range content.GetConditions() {
		state := noValue
		if c, ok := conditions[name]; ok {
			state = strings.ToLower(c.status)
		}
		r.conditions = append(r.conditions, state)
	}
	if wanted := content.GetRows().GetNotTrue(); len(wanted) > 0 {
		r.listed = false
		for _, name := range wanted {
			c, ok := conditions[name]
			if ok && c.status == "True" {
				continue
			}
			r.listed, r.reason = true, word(cut([]byte(clean(cmp.Or(c.reason, name+" is not known"))), maxReason))
			r.since = cmp.Or(c.since, r.since)
			break
		}
	}
	for i, path := range s.columns {
		value, _ := path.Find(fields)
		r.cells = append(r.cells, shownAs(value, content.GetColumns()[i].GetType(), maxCell))
	}
	return r
}

// conditionsOf are the conditions of a status, by type.
func conditionsOf(fields map[string]any) map[string]condition {
	list, _ := mapIn(fields, "status")["conditions"].([]any)
	out := make(map[string]condition, len(list))
	for _, one := range list {
		c, _ := one.(map[string]any)
		status := "Unknown"
		if is := textIn(c, "status"); is == "True" || is == "False" {
			status = is
		}
		out[textIn(c, "type")] = condition{status: status, reason: textIn(c, "reason"), since: timeIn(c, "lastTransitionTime")}
	}
	return out
}

// shownAs is a value as its column shows it, cut, without what looks like a secret; empty: there is none, or none of
// that type.
func shownAs(value any, as string, most int) string {
	var text string
	switch is := value.(type) {
	case nil:
		return ""
	case string:
		text = is
	case json.Number, bool:
		text = fmt.Sprint(is)
	default:
		written, err := json.Marshal(is)
		if err != nil {
			return ""
		}
		text = string(written)
	}
	fits := true
	switch as {
	case "date":
		_, err := time.Parse(time.RFC3339, text)
		fits = err == nil
	case "integer":
		is, ok := value.(json.Number)
		_, err := is.Int64()
		fits = ok && err == nil
	case "number":
		_, fits = value.(json.Number)
	case "boolean":
		_, fits = value.(bool)
	}
	if !fits {
		return ""
	}
	return word(cut([]byte(clean(text)), most))
}

// setSections counts the sets. They take a bounded part of the view: first rows are withheld, then values counted
// together.
func (v *View) setSections() []*deliveryv1.ViewSection {
	for values := maxSetValues; ; values /= 2 {
		var sections []*deliveryv1.ViewSection
		for _, s := range v.sets {
			one := v.setSection(s, values)
			if s.other = s.other && isUnread(one); !s.other {
				sections = append(sections, one)
			}
		}
		fit(sections, maxSets)
		if values == 0 || sizeOf(sections) <= maxSets {
			return sections
		}
	}
}

func (v *View) setSection(s *set, values int) *deliveryv1.ViewSection {
	if s.problem != "" {
		return &deliveryv1.ViewSection{
			Name: viewset.Section(s.is.GetName()), State: deliveryv1.SectionState_SECTION_STATE_WHOLE, Reason: string(cut([]byte(s.problem), 512)), Sample: 1,
		}
	}
	kinds := make([]*kind, len(s.parts))
	for i, p := range s.parts {
		kinds[i] = p.kind
	}
	out := trusted(viewset.Section(s.is.GetName()), kinds)
	if slices.ContainsFunc(kinds, func(k *kind) bool { return !k.known }) {
		return out
	}
	content := s.is.GetContent()
	f := counts{"total": 0}
	counted, states := make([]map[string]int64, len(content.GetCounts())), make([]map[string]int64, len(content.GetConditions()))
	for i := range counted {
		counted[i] = map[string]int64{}
	}
	for i := range states {
		states[i] = map[string]int64{"true": 0, "false": 0, "unknown": 0, noValue: 0}
	}
	list := newWorst(viewset.Most(content), compareSetRecords)
	var listed int64
	for _, p := range s.parts {
		out.Sample = max(out.Sample, p.table.sample)
		one := p.table.times(1)
		for r := range p.table.all() {
			f["total"] += one
			for i, value := range r.counts {
				counted[i][value] += one
			}
			for i, state := range r.conditions {
				states[i][state] += one
			}
			if r.listed {
				listed += one
				list.add(r)
			}
		}
	}
	for i, count := range content.GetCounts() {
		f.addValues(count.GetName(), counted[i], values)
	}
	for i, name := range content.GetConditions() {
		for state, n := range states[i] {
			f.add(name+"."+state, n)
		}
	}
	out.Figures = f
	for _, r := range list.best {
		out.Rows = append(out.Rows, &deliveryv1.ViewRow{
			Key: r.namespace + "/" + r.name, Kind: content.GetOf().GetKind(), Namespace: r.namespace, Name: r.name, Reason: r.reason,
			Service: v.serviceOf(r.service, r.owner), SinceTime: stamp(r.since), Cells: r.cells,
		})
	}
	out.Withheld = listed - int64(len(out.GetRows()))
	return out
}

// addValues adds figures NAME.VALUE, of the values that most objects have.
func (c counts) addValues(name string, of map[string]int64, most int) {
	values := slices.SortedFunc(maps.Keys(of), func(a, b string) int { return cmp.Or(cmp.Compare(of[b], of[a]), cmp.Compare(a, b)) })
	for i, value := range values {
		if i >= most && value != noValue {
			value = otherValues
		}
		c.add(name+"."+value, of[values[i]])
	}
}

func compareSetRecords(a, b *setRecord) int {
	return cmp.Or(cmp.Compare(a.since, b.since), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
}

// isUnread tells whether a section keeps what the hub knew before.
func isUnread(s *deliveryv1.ViewSection) bool {
	return s.GetFigures() == nil && (s.GetState() == deliveryv1.SectionState_SECTION_STATE_READING ||
		s.GetState() == deliveryv1.SectionState_SECTION_STATE_STALE)
}

// forgetKind drops what is known of a kind that is gone.
func (v *View) forgetKind(k *kind) {
	v.mu.Lock()
	k.forget()
	k.known = false
	v.mu.Unlock()
}

func isUnknown(err error) bool {
	_, ok := errors.AsType[*cluster.UnknownKindError](err)
	return ok
}

// why says why a kind can't be followed at all.
func why(err error) string {
	if apierrors.IsMethodNotSupported(err) {
		return "the API server can't be asked to list and watch it"
	}
	return err.Error()
}
