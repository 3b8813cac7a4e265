package catalog

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"

	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
)

// Names of fields of sync options that are levers, and pinNone, by which a file releases a pin.
const (
	keyMode, keyReason, keyPin, keyRequest = "mode", "reason", "pin", "requestTime"
	keyPrune, keyConfirmed                 = "prune", "confirmed"
	keyOverride, keyOnly                   = "requestOverride", "requestOnly"
	keyOverrides                           = "requestOverrides"
	keyWindows                             = "windows"
	pinNone                                = "none"
)

// requests are what people asked of the agent once, which no file says.
type requests struct {
	time, confirmed json.RawMessage
	tests           json.RawMessage
	// override and only are how the sync of time was asked for, and overrides what closed the service then.
	override, overrides, only json.RawMessage
}

// texts are those of the sync options, by key.
func (r *requests) texts() map[string]*json.RawMessage {
	return map[string]*json.RawMessage{keyRequest: &r.time, keyOverride: &r.override, keyOverrides: &r.overrides, keyOnly: &r.only}
}

// parts are a stored spec, taken apart.
type parts struct {
	files  state.ServiceSpec
	levers state.Levers
	asked  requests
}

// partsOf takes a stored spec apart. An option that a console of an older version wrote over the defaults counts as a
// lever without an author: an operator may have pulled it, so no file ends it without a word.
func partsOf(s state.ServiceSpec) (p parts, err error) {
	keys, err := syncKeys(s.Sync)
	if err != nil {
		return p, err
	}
	p.asked.tests = s.TestRequest
	for key, text := range p.asked.texts() {
		*text = keys[key]
		delete(keys, key)
	}
	if p.asked.confirmed, err = takeConfirmed(keys); err != nil {
		return p, err
	}
	p.files = s
	switch {
	case s.Levers == nil:
		p.levers, p.files.UnpinAfter = oldLevers(keys, s.UnpinAfter), ""
	case s.Levers.Files != nil:
		p.levers, p.files = *s.Levers, *s.Levers.Files
		p.levers.Files = nil
		return p, nil
	default:
		p.levers = *s.Levers
	}
	p.files.Levers, p.files.TestRequest = nil, nil
	p.files.Sync, err = syncText(keys)
	return p, err
}

// oldLevers takes levers out of sync options that a console of an older version wrote.
func oldLevers(keys map[string]json.RawMessage, after string) (l state.Levers) {
	mode, reason, pin := textOf(keys[keyMode]), textOf(keys[keyReason]), textOf(keys[keyPin])
	if mode != "" && mode != state.ModeAuto {
		l.Mode = &state.Lever{Mode: mode, Reason: reason}
		delete(keys, keyMode)
		delete(keys, keyReason)
	}
	if pin != "" {
		l.Pin = &state.Lever{Commit: pin, After: after, Reason: reason}
		delete(keys, keyPin)
		delete(keys, keyReason)
	}
	return l
}

// whole puts the parts of a spec together into the one in force.
func (p parts) whole() (state.ServiceSpec, error) {
	out := p.files
	if pin := p.levers.Pin; pin != nil && pin.Spec != nil {
		out = *pin.Spec
		out.Cluster, out.Project, out.ConfigSets, out.Config = p.files.Cluster, p.files.Project, p.files.ConfigSets, p.files.Config
		out.Catalog, out.ServiceAccount = p.files.Catalog, p.files.ServiceAccount
	}
	keys, err := syncKeys(out.Sync)
	if err != nil {
		return out, err
	}
	if pin := p.levers.Pin; pin != nil && pin.Spec != nil { // a rollback is no way around the windows of now
		now, err := syncKeys(p.files.Sync)
		if err != nil {
			return out, err
		}
		if delete(keys, keyWindows); now[keyWindows] != nil {
			keys[keyWindows] = now[keyWindows]
		}
	}
	apart := p.levers.Mode != nil || p.levers.Pin != nil
	named := keys[keyMode] != nil || keys[keyReason] != nil || keys[keyPin] != nil || out.UnpinAfter != ""
	if textOf(keys[keyPin]) == pinNone {
		delete(keys, keyPin)
		apart = true
	}
	reason := ""
	if mode := textOf(keys[keyMode]); mode != "" && mode != state.ModeAuto {
		reason = textOf(keys[keyReason]) // of the hold that files name
	}
	if pin := p.levers.Pin; pin != nil {
		setText(keys, keyPin, pin.Commit)
		out.UnpinAfter, reason = pin.After, cmp.Or(reason, pin.Reason)
	}
	if mode := p.levers.Mode; mode != nil {
		setText(keys, keyMode, mode.Mode)
		if mode.Mode == state.ModeAuto {
			delete(keys, keyMode)
			if reason = ""; p.levers.Pin != nil {
				reason = p.levers.Pin.Reason
			}
		} else {
			reason = mode.Reason
		}
	}
	if p.levers.Mode != nil || p.levers.Pin != nil {
		setText(keys, keyReason, reason)
	}
	for key, text := range p.asked.texts() {
		if *text != nil {
			keys[key] = *text
		}
	}
	if err := giveConfirmed(keys, p.asked.confirmed); err != nil {
		return out, err
	}
	if out.Sync, err = syncText(keys); err != nil {
		return out, err
	}
	out.TestRequest, out.Levers = p.asked.tests, nil
	switch {
	case apart:
		files := p.files
		files.Levers, files.TestRequest = nil, nil
		out.Levers = &state.Levers{Mode: p.levers.Mode, Pin: p.levers.Pin, Files: &files}
	case named:
		out.Levers = &state.Levers{} // else it would look as if an older console had written a lever
	}
	return out, nil
}

// inForce makes of what a file says the spec in force: levers stay, unless the file says something else of them than it
// did, and what the file says of the rest waits behind a rollback. The notes say so.
func inForce(
	says state.ServiceSpec, current *state.ServiceSpec, last *string,
) (out state.ServiceSpec, notes []string, err error) {
	says.Levers = nil
	next, err := partsOf(state.ServiceSpec{Sync: says.Sync, Levers: &state.Levers{}}) // every option there is the file's
	if err != nil {
		return says, nil, err
	}
	asked := next.asked
	next.files, next.levers, next.asked = withSync(says, next.files.Sync), state.Levers{}, requests{tests: says.TestRequest, confirmed: asked.confirmed}
	next.files.TestRequest = nil
	if current == nil {
		out, err = next.whole()
		return out, nil, err
	}
	if current.Levers == nil && last != nil { // written by an older console, which kept what the folder said last
		if was, err := leversOf(*current); err == nil && was == *last {
			of := *current
			of.Levers, current = &state.Levers{}, &of
		}
	}
	is, err := partsOf(*current)
	if err != nil {
		return says, nil, err
	}
	confirmed := next.asked.confirmed
	tests := next.asked.tests
	next.asked = is.asked
	next.asked.tests, next.asked.confirmed = tests, confirmed
	if next.asked.confirmed == nil {
		next.asked.confirmed = is.asked.confirmed
	}
	next.levers = is.levers
	if err := next.named(&is, current, &notes); err != nil {
		return says, nil, err
	}
	if out, err = next.whole(); err != nil {
		return says, nil, err
	}
	if current.Levers == nil { // a spec that an older console wrote stays in its form while nothing changes
		form := out
		if form.Levers = nil; sameFiles(form, *current) && sameFiles(is.files, next.files) && reflect.DeepEqual(is.levers, next.levers) {
			return *current, notes, nil
		}
	}
	if pin := next.levers.Pin; pin != nil && pin.Deployment > 0 && !sameFiles(is.files, next.files) {
		notes = append(notes, "waits behind "+pin.Words()+": "+pin.End())
	}
	return out, notes, nil
}

// named ends the levers of which a file says something else than it did, and takes what it only read back for nothing
// said. The parts are those that come; is are those that are there, and force is the spec in force.
func (p *parts) named(is *parts, force *state.ServiceSpec, notes *[]string) error {
	var sides [3]map[string]json.RawMessage // says, said, in force
	for i, text := range []json.RawMessage{p.files.Sync, is.files.Sync, force.Sync} {
		var err error
		if sides[i], err = syncKeys(text); err != nil {
			return err
		}
	}
	says, said, forced := sides[0], sides[1], sides[2]
	same := func(a, b map[string]json.RawMessage, keys ...string) bool {
		for _, key := range keys {
			if textOf(a[key]) != textOf(b[key]) {
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
	if lever := is.levers.Mode; lever != nil {
		switch {
		case textOf(says[keyMode]) != "" && same(says, forced, keyMode, keyReason) && !same(says, said, keyMode, keyReason):
			back(keyMode, keyReason)
			kept = true
		case textOf(says[keyMode]) == "" || same(says, said, keyMode):
			kept = true
		default:
			p.levers.Mode = nil
			*notes = append(*notes, "ends "+lever.Words())
		}
		if kept {
			*notes = append(*notes, "keeps "+lever.Words())
		}
	}
	if lever := is.levers.Pin; lever != nil {
		keep := true
		switch {
		case textOf(says[keyPin]) != "" && same(says, forced, keyPin) && !same(says, said, keyPin):
			back(keyPin)
			p.files.UnpinAfter = is.files.UnpinAfter
		case textOf(says[keyPin]) == "" || same(says, said, keyPin):
		default:
			keep = false
			p.levers.Pin = nil
			*notes = append(*notes, "ends "+lever.Words())
		}
		if keep && (lever.Deployment == 0 || sameFiles(is.files, p.files)) {
			*notes = append(*notes, "keeps "+lever.Words())
		}
		if keep && textOf(says[keyPin]) == "" {
			p.files.UnpinAfter = ""
		}
		if keep && textOf(says[keyReason]) == lever.Reason && p.levers.Mode == nil {
			back(keyReason)
		}
	}
	var err error
	p.files.Sync, err = syncText(says)
	return err
}

// sameFiles says whether two specs are the same but for their form.
func sameFiles(a, b state.ServiceSpec) bool {
	was, errWas := json.Marshal(a)
	is, errIs := json.Marshal(b)
	return errWas == nil && errIs == nil && sameJSON(was, is)
}

func sameJSON(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var was, is any
	return json.Unmarshal(a, &was) == nil && json.Unmarshal(b, &is) == nil && reflect.DeepEqual(was, is)
}

func withSync(s state.ServiceSpec, sync json.RawMessage) state.ServiceSpec {
	s.Sync = sync
	return s
}

// FilesOf is the spec of a stored service as files say it, without what people set of it by hand.
func FilesOf(r store.Resource) (state.ServiceSpec, error) {
	var spec state.ServiceSpec
	if err := state.Decode(r, &spec); err != nil {
		return spec, err
	}
	p, err := partsOf(spec)
	return p.files, err
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
	if err != nil || sameFiles(last, next) {
		return before, after, err
	}
	return withSpec(*before, last), withSpec(*after, next), nil
}

func withSpec(r store.Resource, s state.ServiceSpec) *store.Resource {
	s.Levers = &state.Levers{}
	r.Spec, _ = json.Marshal(s) // the spec was decoded from there
	return &r
}

// LeversOf are those of a service, those included that a console of an older version wrote; nil: there are none.
func LeversOf(s *state.Service) *state.Levers {
	if s.Spec.Levers != nil {
		return s.Spec.Levers
	}
	p, err := partsOf(s.Spec)
	if err != nil || p.levers.Mode == nil && p.levers.Pin == nil {
		return nil
	}
	p.levers.Files = &p.files
	return &p.levers
}

// OnlyLevers says whether nothing of a service changed but its levers, and what was asked of its agent. A rollback that
// gives it another spec is more than that; its end is not.
func OnlyLevers(before, after *store.Resource) (bool, error) {
	if after.Kind != store.KindService || !maps.Equal(before.Labels, after.Labels) {
		return false, nil
	}
	var rest [2]struct{ files, force state.ServiceSpec }
	for i, r := range []*store.Resource{before, after} {
		var spec state.ServiceSpec
		if err := state.Decode(*r, &spec); err != nil {
			return false, err
		}
		p, err := partsOf(spec)
		if err != nil {
			return false, err
		}
		if rest[i].files, err = withoutLevers(p.files); err != nil {
			return false, err
		}
		if rest[i].force, err = withoutLevers(spec); err != nil {
			return false, err
		}
	}
	was, is := rest[0], rest[1]
	return sameFiles(was.files, is.files) && (sameFiles(was.force, is.force) || sameFiles(is.force, is.files)), nil
}

// withoutLevers is a spec without all that a lever can set.
func withoutLevers(s state.ServiceSpec) (state.ServiceSpec, error) {
	keys, err := syncKeys(s.Sync)
	if err != nil {
		return s, err
	}
	for _, key := range []string{keyMode, keyReason, keyPin, keyRequest, keyOverride, keyOverrides, keyOnly} {
		delete(keys, key)
	}
	if _, err := takeConfirmed(keys); err != nil {
		return s, err
	}
	s.UnpinAfter, s.TestRequest, s.Levers = "", nil, nil
	s.Sync, err = syncText(keys)
	return s, err
}

func syncKeys(text json.RawMessage) (map[string]json.RawMessage, error) {
	keys := map[string]json.RawMessage{}
	if len(text) == 0 {
		return keys, nil
	}
	if err := json.Unmarshal(text, &keys); err != nil {
		return nil, fmt.Errorf("decode sync options: %w", err)
	}
	return keys, nil
}

// syncText is nil for no options.
func syncText(keys map[string]json.RawMessage) (json.RawMessage, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	text, err := json.Marshal(keys)
	if err != nil {
		return nil, fmt.Errorf("encode sync options: %w", err)
	}
	return text, nil
}

func textOf(value json.RawMessage) (s string) {
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
	prune, err := syncKeys(keys[keyPrune])
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
	prune, err := syncKeys(keys[keyPrune])
	if err != nil {
		return err
	}
	prune[keyConfirmed] = confirmed
	return setPrune(keys, prune)
}

func setPrune(keys, prune map[string]json.RawMessage) error {
	text, err := syncText(prune)
	if delete(keys, keyPrune); text != nil {
		keys[keyPrune] = text
	}
	return err
}

// leversOf are the levers of a service in one form; empty: all are as if they were not there.
func leversOf(spec state.ServiceSpec) (string, error) {
	_, levers, err := apart(spec.Sync, spec.UnpinAfter)
	if err != nil || len(levers) == 0 {
		return "", err
	}
	text, err := json.Marshal(levers)
	return string(text), err
}
