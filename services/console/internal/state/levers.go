package state

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"fairlead.dev/services/console/internal/store"
)

// Names of fields of sync options that are levers, and PinNone, by which a file releases a pin.
const (
	KeyMode, KeyReason, KeyPin, keyRequest = "mode", "reason", "pin", "requestTime"
	keyPrune, keyConfirmed                 = "prune", "confirmed"
	keyOverride, keyOnly                   = "requestOverride", "requestOnly"
	keyOverrides                           = "requestOverrides"
	KeyWindows                             = "windows"
	PinNone                                = "none"
)

// Requests are what people asked of the agent once, which no file says.
type Requests struct {
	Time, Confirmed json.RawMessage
	Tests           json.RawMessage
	// Override and Only are how the sync of Time was asked for, and Overrides what closed the service then.
	Override, Overrides, Only json.RawMessage
}

// texts are those of the sync options, by key.
func (r *Requests) texts() map[string]*json.RawMessage {
	return map[string]*json.RawMessage{keyRequest: &r.Time, keyOverride: &r.Override, keyOverrides: &r.Overrides, keyOnly: &r.Only}
}

// Parts are a stored spec, taken apart.
type Parts struct {
	Files  ServiceSpec
	Levers Levers
	Asked  Requests
}

// PartsOf takes a stored spec apart. An option that a console of an older version wrote over the defaults counts as a
// lever without an author: an operator may have pulled it, so no file ends it without a word.
func PartsOf(s ServiceSpec) (p Parts, err error) {
	keys, err := SyncKeys(s.Sync)
	if err != nil {
		return p, err
	}
	p.Asked.Tests = s.TestRequest
	for key, text := range p.Asked.texts() {
		*text = keys[key]
		delete(keys, key)
	}
	if p.Asked.Confirmed, err = takeConfirmed(keys); err != nil {
		return p, err
	}
	p.Files = s
	switch {
	case s.Levers == nil:
		p.Levers, p.Files.UnpinAfter = oldLevers(keys, s.UnpinAfter), ""
	case s.Levers.Files != nil:
		p.Levers, p.Files = *s.Levers, *s.Levers.Files
		p.Levers.Files = nil
		return p, nil
	default:
		p.Levers = *s.Levers
	}
	p.Files.Levers, p.Files.TestRequest = nil, nil
	p.Files.Sync, err = SyncText(keys)
	return p, err
}

// oldLevers takes levers out of sync options that a console of an older version wrote.
func oldLevers(keys map[string]json.RawMessage, after string) (l Levers) {
	mode, reason, pin := TextOf(keys[KeyMode]), TextOf(keys[KeyReason]), TextOf(keys[KeyPin])
	if mode != "" && mode != ModeAuto {
		l.Mode = &Lever{Mode: mode, Reason: reason}
		delete(keys, KeyMode)
		delete(keys, KeyReason)
	}
	if pin != "" {
		l.Pin = &Lever{Commit: pin, After: after, Reason: reason}
		delete(keys, KeyPin)
		delete(keys, KeyReason)
	}
	return l
}

// Whole puts the parts of a spec together into the one in force.
func (p Parts) Whole() (ServiceSpec, error) {
	out := p.Files
	if pin := p.Levers.Pin; pin != nil && pin.Spec != nil {
		var err error
		if out, err = pin.Spec.withPresent(p.Files); err != nil {
			return out, err
		}
	}
	keys, err := SyncKeys(out.Sync)
	if err != nil {
		return out, err
	}
	apart := p.Levers.Mode != nil || p.Levers.Pin != nil
	named := keys[KeyMode] != nil || keys[KeyReason] != nil || keys[KeyPin] != nil || out.UnpinAfter != ""
	if TextOf(keys[KeyPin]) == PinNone {
		delete(keys, KeyPin)
		apart = true
	}
	reason := ""
	if mode := TextOf(keys[KeyMode]); mode != "" && mode != ModeAuto {
		reason = TextOf(keys[KeyReason]) // of the hold that files name
	}
	if pin := p.Levers.Pin; pin != nil {
		setText(keys, KeyPin, pin.Commit)
		out.UnpinAfter, reason = pin.After, cmp.Or(reason, pin.Reason)
	}
	if mode := p.Levers.Mode; mode != nil {
		setText(keys, KeyMode, mode.Mode)
		if mode.Mode == ModeAuto {
			delete(keys, KeyMode)
			if reason = ""; p.Levers.Pin != nil {
				reason = p.Levers.Pin.Reason
			}
		} else {
			reason = mode.Reason
		}
	}
	if p.Levers.Mode != nil || p.Levers.Pin != nil {
		setText(keys, KeyReason, reason)
	}
	for key, text := range p.Asked.texts() {
		if *text != nil {
			keys[key] = *text
		}
	}
	if err := giveConfirmed(keys, p.Asked.Confirmed); err != nil {
		return out, err
	}
	if out.Sync, err = SyncText(keys); err != nil {
		return out, err
	}
	out.TestRequest, out.Levers = p.Asked.Tests, nil
	switch {
	case apart:
		files := p.Files
		files.Levers, files.TestRequest = nil, nil
		out.Levers = &Levers{Mode: p.Levers.Mode, Pin: p.Levers.Pin, Files: &files}
	case named:
		out.Levers = &Levers{} // else it would look as if an older console had written a lever
	}
	return out, nil
}

// withPresent is a spec with all of the present files that counts under a rollback, too: a rollback moves a service
// nowhere, and is no way around the configuration, the windows and the manual mode of now.
func (s ServiceSpec) withPresent(files ServiceSpec) (ServiceSpec, error) {
	s.Cluster, s.Project, s.ConfigSets, s.Config = files.Cluster, files.Project, files.ConfigSets, files.Config
	s.Catalog, s.ServiceAccount = files.Catalog, files.ServiceAccount
	keys, err := SyncKeys(s.Sync)
	if err != nil {
		return s, err
	}
	present, err := SyncKeys(files.Sync)
	if err != nil {
		return s, err
	}
	for _, key := range alwaysPresent(keys) {
		delete(keys, key)
	}
	for _, key := range alwaysPresent(present) {
		if delete(keys, key); present[key] != nil {
			keys[key] = present[key]
		}
	}
	s.Sync, err = SyncText(keys)
	return s, err
}

// alwaysPresent are the sync options that count under a rollback, too.
func alwaysPresent(keys map[string]json.RawMessage) []string {
	if TextOf(keys[KeyMode]) == ModeManual {
		return []string{KeyWindows, KeyMode, KeyReason}
	}
	return []string{KeyWindows}
}

// UnderRollback says what comes of a change of files under a rollback: whether something waits for its end, and which
// fields, as in spec.cluster, count at once.
func UnderRollback(was, is ServiceSpec) (waits bool, atOnce []string, err error) {
	between, err := was.withPresent(is)
	if err != nil {
		return false, nil, err
	}
	var fields [2]map[string]json.RawMessage
	for i, spec := range []ServiceSpec{was, between} {
		text, err := json.Marshal(spec)
		if err != nil {
			return false, nil, fmt.Errorf("encode spec: %w", err)
		}
		if err := json.Unmarshal(text, &fields[i]); err != nil {
			return false, nil, fmt.Errorf("decode spec: %w", err)
		}
		sync, err := SyncKeys(spec.Sync)
		if err != nil {
			return false, nil, err
		}
		delete(fields[i], "sync")
		for key, value := range sync {
			fields[i]["sync."+key] = value
		}
	}
	all := maps.Clone(fields[0])
	maps.Copy(all, fields[1])
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !SameJSON(fields[0][name], fields[1][name]) {
			atOnce = append(atOnce, "spec."+name)
		}
	}
	return !SameFiles(between, is), atOnce, nil
}

// InForce makes of what a file says the spec in force: levers stay, unless the file says something else of them than it
// did, and most of what the file says of the rest waits behind a rollback. The notes say so.
func InForce(
	says ServiceSpec, current *ServiceSpec, last *string,
) (out ServiceSpec, notes []string, err error) {
	says.Levers = nil
	next, err := PartsOf(ServiceSpec{Sync: says.Sync, Levers: &Levers{}}) // every option there is the file's
	if err != nil {
		return says, nil, err
	}
	asked := next.Asked
	next.Files, next.Levers, next.Asked = withSync(says, next.Files.Sync), Levers{}, Requests{Tests: says.TestRequest, Confirmed: asked.Confirmed}
	next.Files.TestRequest = nil
	if current == nil {
		out, err = next.Whole()
		return out, nil, err
	}
	if current.Levers == nil && last != nil { // written by an older console, which kept what the folder said last
		if was, err := LeverText(*current); err == nil && was == *last {
			of := *current
			of.Levers, current = &Levers{}, &of
		}
	}
	is, err := PartsOf(*current)
	if err != nil {
		return says, nil, err
	}
	confirmed := next.Asked.Confirmed
	tests := next.Asked.Tests
	next.Asked = is.Asked
	next.Asked.Tests, next.Asked.Confirmed = tests, confirmed
	if next.Asked.Confirmed == nil {
		next.Asked.Confirmed = is.Asked.Confirmed
	}
	next.Levers = is.Levers
	if err := next.named(&is, current, &notes); err != nil {
		return says, nil, err
	}
	if out, err = next.Whole(); err != nil {
		return says, nil, err
	}
	if current.Levers == nil { // a spec that an older console wrote stays in its form while nothing changes
		form := out
		if form.Levers = nil; SameFiles(form, *current) && SameFiles(is.Files, next.Files) && reflect.DeepEqual(is.Levers, next.Levers) {
			same := *current
			same.Config = out.Config // with the values of secret settings that come, which no text holds
			return same, notes, nil
		}
	}
	if pin := next.Levers.Pin; pin != nil && pin.Deployment > 0 {
		waits, atOnce, err := UnderRollback(is.Files, next.Files)
		if err != nil {
			return says, nil, err
		}
		if waits {
			notes = append(notes, "waits behind "+pin.Words()+": "+pin.End())
		} else {
			notes = append(notes, "keeps "+pin.Words())
		}
		if len(atOnce) > 0 {
			notes = append(notes, "counts at once, also under the rollback: "+strings.Join(atOnce, ", "))
		}
	}
	return out, notes, nil
}

// named ends the levers of which a file says something else than it did, and takes what it only read back for nothing
// said. The parts are those that come; is are those that are there, and force is the spec in force.
func (p *Parts) named(is *Parts, force *ServiceSpec, notes *[]string) error {
	var sides [3]map[string]json.RawMessage // says, said, in force
	for i, text := range []json.RawMessage{p.Files.Sync, is.Files.Sync, force.Sync} {
		var err error
		if sides[i], err = SyncKeys(text); err != nil {
			return err
		}
	}
	says, said, forced := sides[0], sides[1], sides[2]
	same := func(a, b map[string]json.RawMessage, keys ...string) bool {
		for _, key := range keys {
			if TextOf(a[key]) != TextOf(b[key]) {
				return false
			}
		}
		return true
	}
	back := func(keys ...string) {
		for _, key := range keys {
			if delete(says, key); said[key] != nil {
				says[key] = said[key]
			}
		}
	}
	kept := false
	if lever := is.Levers.Mode; lever != nil {
		switch {
		case TextOf(says[KeyMode]) != "" && same(says, forced, KeyMode, KeyReason) && !same(says, said, KeyMode, KeyReason):
			back(KeyMode, KeyReason)
			kept = true
		case TextOf(says[KeyMode]) == "" || same(says, said, KeyMode):
			kept = true
		default:
			p.Levers.Mode = nil
			*notes = append(*notes, "ends "+lever.Words())
		}
		if kept {
			*notes = append(*notes, "keeps "+lever.Words())
		}
	}
	if lever := is.Levers.Pin; lever != nil {
		keep := true
		switch {
		case TextOf(says[KeyPin]) != "" && same(says, forced, KeyPin) && !same(says, said, KeyPin):
			back(KeyPin)
			p.Files.UnpinAfter = is.Files.UnpinAfter
		case TextOf(says[KeyPin]) == "" || same(says, said, KeyPin):
		default:
			keep = false
			p.Levers.Pin = nil
			*notes = append(*notes, "ends "+lever.Words())
		}
		if keep && lever.Deployment == 0 {
			*notes = append(*notes, "keeps "+lever.Words())
		}
		if keep && TextOf(says[KeyPin]) == "" {
			p.Files.UnpinAfter = ""
		}
		if keep && TextOf(says[KeyReason]) == lever.Reason && p.Levers.Mode == nil {
			back(KeyReason)
		}
	}
	var err error
	p.Files.Sync, err = SyncText(says)
	return err
}

// SameFiles says whether two specs are the same but for their form.
func SameFiles(a, b ServiceSpec) bool {
	was, errWas := json.Marshal(a)
	is, errIs := json.Marshal(b)
	return errWas == nil && errIs == nil && SameJSON(was, is)
}

// SameJSON says whether two texts are the same but for their form.
func SameJSON(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var was, is any
	return json.Unmarshal(a, &was) == nil && json.Unmarshal(b, &is) == nil && reflect.DeepEqual(was, is)
}

func withSync(s ServiceSpec, sync json.RawMessage) ServiceSpec {
	s.Sync = sync
	return s
}

// FilesOf is the spec of a stored service as files say it, without what people set of it by hand.
func FilesOf(r store.Resource) (ServiceSpec, error) {
	var spec ServiceSpec
	if err := Decode(r, &spec); err != nil {
		return spec, err
	}
	p, err := PartsOf(spec)
	return p.Files, err
}

// AsFiles returns a resource as files say it, before a change and after; where they say the same, both as they are in
// force, which shows levers.
func AsFiles(before, after *store.Resource) (was, is *store.Resource, err error) {
	if after == nil || after.Kind != store.KindService {
		return before, after, nil
	}
	next, err := FilesOf(*after)
	if err != nil || before == nil {
		return before, withSpec(*after, next), err
	}
	last, err := FilesOf(*before)
	if err != nil || SameFiles(last, next) {
		return before, after, err
	}
	return withSpec(*before, last), withSpec(*after, next), nil
}

func withSpec(r store.Resource, s ServiceSpec) *store.Resource {
	s.Levers = &Levers{}
	r.Spec, _ = json.Marshal(s) // the spec was decoded from there
	return &r
}

// LeversOf are those of a service, those included that a console of an older version wrote; nil: there are none.
func LeversOf(s *Service) *Levers {
	if s.Spec.Levers != nil {
		return s.Spec.Levers
	}
	p, err := PartsOf(s.Spec)
	if err != nil || p.Levers.Mode == nil && p.Levers.Pin == nil {
		return nil
	}
	p.Levers.Files = &p.Files
	return &p.Levers
}

// OnlyLevers says whether nothing of a service changed but its levers, and what was asked of its agent. A rollback that
// gives it another spec is more than that; its end is not.
func OnlyLevers(before, after *store.Resource) (bool, error) {
	if after.Kind != store.KindService || !maps.Equal(before.Labels, after.Labels) || !bytes.Equal(before.Sealed, after.Sealed) {
		return false, nil
	}
	var rest [2]struct{ files, force ServiceSpec }
	for i, r := range []*store.Resource{before, after} {
		var spec ServiceSpec
		if err := Decode(*r, &spec); err != nil {
			return false, err
		}
		p, err := PartsOf(spec)
		if err != nil {
			return false, err
		}
		if rest[i].files, err = WithoutLevers(p.Files); err != nil {
			return false, err
		}
		if rest[i].force, err = WithoutLevers(spec); err != nil {
			return false, err
		}
	}
	was, is := rest[0], rest[1]
	return SameFiles(was.files, is.files) && (SameFiles(was.force, is.force) || SameFiles(is.force, is.files)), nil
}

// SameButLevers says whether files say the same of a service, but for levers.
func SameButLevers(before, after store.Resource) (bool, error) {
	var sides [2]ServiceSpec
	for i, r := range []store.Resource{before, after} {
		files, err := FilesOf(r)
		if err != nil {
			return false, err
		}
		if sides[i], err = WithoutLevers(files); err != nil {
			return false, err
		}
	}
	return SameFiles(sides[0], sides[1]), nil
}

// WithoutLevers is a spec without all that a lever can set.
func WithoutLevers(s ServiceSpec) (ServiceSpec, error) {
	keys, err := SyncKeys(s.Sync)
	if err != nil {
		return s, err
	}
	for _, key := range []string{KeyMode, KeyReason, KeyPin, keyRequest, keyOverride, keyOverrides, keyOnly} {
		delete(keys, key)
	}
	if _, err := takeConfirmed(keys); err != nil {
		return s, err
	}
	s.UnpinAfter, s.TestRequest, s.Levers = "", nil, nil
	s.Sync, err = SyncText(keys)
	return s, err
}

// SyncKeys are sync options by key.
func SyncKeys(text json.RawMessage) (map[string]json.RawMessage, error) {
	keys := map[string]json.RawMessage{}
	if len(text) == 0 {
		return keys, nil
	}
	if err := json.Unmarshal(text, &keys); err != nil {
		return nil, fmt.Errorf("decode sync options: %w", err)
	}
	return keys, nil
}

// SyncText is nil for no options.
func SyncText(keys map[string]json.RawMessage) (json.RawMessage, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	text, err := json.Marshal(keys)
	if err != nil {
		return nil, fmt.Errorf("encode sync options: %w", err)
	}
	return text, nil
}

// TextOf is the text that an option holds; empty: none.
func TextOf(value json.RawMessage) (s string) {
	_ = json.Unmarshal(value, &s) // a value that is no text is the empty text
	return s
}

func setText(keys map[string]json.RawMessage, key, value string) {
	if delete(keys, key); value != "" {
		keys[key], _ = json.Marshal(value) // a text
	}
}

// takeConfirmed takes what was confirmed out of the rules of removals.
func takeConfirmed(keys map[string]json.RawMessage) (json.RawMessage, error) {
	prune, err := SyncKeys(keys[keyPrune])
	if err != nil || prune[keyConfirmed] == nil {
		return nil, err
	}
	confirmed := prune[keyConfirmed]
	delete(prune, keyConfirmed)
	return confirmed, setPrune(keys, prune)
}

func giveConfirmed(keys map[string]json.RawMessage, confirmed json.RawMessage) error {
	if confirmed == nil {
		return nil
	}
	prune, err := SyncKeys(keys[keyPrune])
	if err != nil {
		return err
	}
	prune[keyConfirmed] = confirmed
	return setPrune(keys, prune)
}

func setPrune(keys, prune map[string]json.RawMessage) error {
	text, err := SyncText(prune)
	if delete(keys, keyPrune); text != nil {
		keys[keyPrune] = text
	}
	return err
}

// LeverText are the levers of a service in one form; empty: all are as if they were not there.
func LeverText(spec ServiceSpec) (string, error) {
	_, levers, err := apart(spec.Sync, spec.UnpinAfter)
	if err != nil || len(levers) == 0 {
		return "", err
	}
	text, err := json.Marshal(levers)
	return string(text), err
}

// apart takes the levers out of sync options. Both results are nil for nothing.
func apart(sync json.RawMessage, unpinAfter string) (rest, levers map[string]any, err error) {
	if sync != nil {
		if err := json.Unmarshal(sync, &rest); err != nil {
			return nil, nil, fmt.Errorf("decode sync options: %w", err)
		}
	}
	levers = map[string]any{}
	for _, key := range leverKeys() {
		if value, ok := rest[key]; ok {
			levers[key] = value
			delete(rest, key)
		}
	}
	if prune, ok := rest["prune"].(map[string]any); ok {
		if value, ok := prune["confirmed"]; ok {
			levers["confirmed"] = value
			delete(prune, "confirmed")
		}
		if len(prune) == 0 {
			delete(rest, "prune")
		}
	}
	if unpinAfter != "" {
		levers["unpinAfter"] = unpinAfter
	}
	return rest, levers, nil
}

// leverKeys are the fields of a service's sync options that people set by hand: hold, resume, pin, sync, confirm.
func leverKeys() []string { return []string{"mode", "reason", "pin", "requestTime"} }
