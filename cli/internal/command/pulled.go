package command

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
)

// pulled is what keeps a service from following its ref, or what its files say: a lever, or a mode or a pin of its files.
type pulled struct {
	word  string           // held, suspended, in dry run, rolled back, pinned, resumed, released
	what  string           // the word, and to what
	lever *consolev1.Lever // nil: files say it
	why   string
	until string // besides its own time
	end   string // the command that ends it
}

// listPulled returns what keeps a service from following its ref and its files, the mode first.
func listPulled(s *consolev1.Service) (out []pulled) {
	name, sync, levers := s.GetMetadata().GetName(), s.GetSpec().GetSync(), s.GetLevers()
	resume := fmt.Sprintf("`fairlead resume service %s`", name)
	if word := modeWord(sync.GetMode()); word != "" {
		p := pulled{word: word, what: strings.Replace(word, "dry-run", "in dry run", 1), why: sync.GetReason(), end: resume}
		if l := levers.GetMode(); l != nil && l.GetMode() == sync.GetMode() {
			p.lever, p.why = l, cmp.Or(l.GetReason(), sync.GetReason())
		}
		out = append(out, p)
	} else if l := levers.GetMode(); l != nil {
		out = append(out, pulled{
			word: "resumed", what: "resumed over the mode of its files", lever: l,
			why: l.GetReason(), end: fmt.Sprintf("`fairlead hold service %s`, or mode in its file,", name),
		})
	}
	release := fmt.Sprintf("`fairlead pin service %s --release`", name)
	if pin := sync.GetPin(); pin != "" {
		p := pulled{word: "pinned", what: "pinned to " + shortHash(pin), end: release}
		if l := levers.GetPin(); l.GetCommit() == pin {
			p.lever, p.why = l, l.GetReason()
			if n := l.GetDeployment(); n > 0 {
				p.word, p.what = "rolled back", fmt.Sprintf("rolled back to deployment %d (%s)", n, shortHash(pin))
			}
		} else if modeWord(sync.GetMode()) == "" {
			p.why = sync.GetReason()
		}
		if s.GetSpec().GetUnpinAfter() != "" {
			p.until = fmt.Sprintf("until %s moves on from %s", followedRef(s.GetSpec()), shortHash(s.GetSpec().GetUnpinAfter()))
		}
		out = append(out, p)
	} else if l := levers.GetPin(); l != nil {
		out = append(out, pulled{
			word: "released", what: "released from the pin of its files", lever: l,
			why: l.GetReason(), end: fmt.Sprintf("`fairlead pin service %s`, or pin in its file,", name),
		})
	}
	return out
}

// modeWord is how a service stands in a mode in which nothing new is applied; empty: it is automatic.
func modeWord(m deliveryv1.SyncMode) string {
	switch m {
	case deliveryv1.SyncMode_SYNC_MODE_HOLD:
		return "held"
	case deliveryv1.SyncMode_SYNC_MODE_SUSPEND:
		return "suspended"
	case deliveryv1.SyncMode_SYNC_MODE_DRY_RUN:
		return "dry-run"
	case deliveryv1.SyncMode_SYNC_MODE_MANUAL:
		return "manual"
	}
	return ""
}

// sinceTime is when a lever was pulled; unset: that is not known.
func (p pulled) sinceTime() *timestamppb.Timestamp { return p.lever.GetSinceTime() }

// pulledBy says who did it.
func (p pulled) pulledBy() string {
	if p.lever == nil {
		return "by its files"
	}
	return "by " + cmp.Or(p.lever.GetAuthor(), "nobody known")
}

// describePulled returns a text such as: held by user:ada (incident 7), until 2026-01-31T12:00:00Z (in 2h): `fairlead resume service web` ends it.
func (v view) describePulled(p pulled) string {
	text := p.what + " " + p.pulledBy() + formatReason(p.why)
	var until []string
	if p.until != "" {
		until = append(until, p.until)
	}
	if at := p.lever.GetUntilTime(); isSet(at) {
		until = append(until, fmt.Sprintf("until %s (%s)", at.AsTime().Local().Format(time.RFC3339), v.untilText(at)))
	}
	if len(until) > 0 {
		text += ", " + strings.Join(until, " and ")
	}
	return text + ": " + p.end + " ends it"
}

// stateOf is the state of a service, and what keeps it from following: Healthy, held.
func stateOf(s *consolev1.Service) string {
	words := []string{stateName(s.GetStatus().GetState())}
	for _, p := range listPulled(s) {
		if !strings.EqualFold(p.word, words[0]) {
			words = append(words, p.word)
		}
	}
	return strings.Join(words, ", ")
}

// pullNotes say of each lever of a service who pulled it, why, since when and until when.
func (v view) pullNotes(s *consolev1.Service) (notes []note) {
	for _, p := range listPulled(s) {
		notes = append(notes, note{about: s.GetMetadata().GetName(), text: v.describePulled(p), since: p.sinceTime()})
	}
	return notes
}

// leversStep says what keeps a service from following; it is left out where nothing does.
func (t *trail) leversStep() (s step, any bool) {
	s = step{name: "LEVERS", mark: markHeld}
	for i, p := range listPulled(t.service) {
		s.addLine("%s", t.sinceText(t.describePulled(p), p.sinceTime()))
		if i == 0 {
			s.since, s.cause = p.sinceTime(), p.what+" "+p.pulledBy()+formatReason(p.why)
			s.next = p.end + " ends it"
		}
	}
	return s, len(s.lines) > 0
}

// oldHold is from when on a lever is worth a word in a check: an incident is over by then, or the lever is forgotten.
const oldHold = 24 * time.Hour

// leverTrouble is what a check says of a service's levers: pins, and holds that are older than a day.
func (v view) leverTrouble(s *consolev1.Service) string {
	var texts []string
	for _, p := range listPulled(s) {
		since := p.sinceTime()
		switch p.word {
		case "pinned", "rolled back":
		case "resumed", "released":
			continue
		default:
			if p.lever == nil || isSet(since) && v.now.Sub(since.AsTime()) < oldHold {
				continue
			}
		}
		texts = append(texts, v.sinceText(v.describePulled(p), since))
	}
	return strings.Join(texts, "; ")
}
