package view

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/catalog"
)

// pulled is what keeps a service from following its ref, or what its files say: a lever, or a mode or a pin of its
// files.
type pulled struct {
	Word  string           // held, suspended, in dry run, rolled back, pinned, resumed, released
	What  string           // the word, and to what
	Lever *consolev1.Lever // nil: files say it
	Why   string
	until string // besides its own time
	End   string // the command that ends it
}

// ListPulled returns what keeps a service from following its ref and its files, the mode first.
func ListPulled(s *consolev1.Service) (out []pulled) {
	name, sync, levers := s.GetMetadata().GetName(), s.GetSpec().GetSync(), s.GetLevers()
	resume := fmt.Sprintf("`fairlead resume service %s`", name)
	if word := ModeWord(sync.GetMode()); word != "" {
		p := pulled{
			Word: word, What: strings.Replace(word, "dry-run", "in dry run", 1), Why: sync.GetReason(), End: resume,
		}
		if l := levers.GetMode(); l != nil && l.GetMode() == sync.GetMode() {
			p.Lever, p.Why = l, cmp.Or(l.GetReason(), sync.GetReason())
		}
		out = append(out, p)
	} else if l := levers.GetMode(); l != nil {
		out = append(out, pulled{
			Word: "resumed", What: "resumed over the mode of its files", Lever: l,
			Why: l.GetReason(), End: fmt.Sprintf("`fairlead hold service %s`, or mode in its file,", name),
		})
	}
	release := fmt.Sprintf("`fairlead pin service %s --release`", name)
	if pin := sync.GetPin(); pin != "" {
		p := pulled{Word: "pinned", What: "pinned to " + ShortHash(pin), End: release}
		if l := levers.GetPin(); l.GetCommit() == pin {
			p.Lever, p.Why = l, l.GetReason()
			if n := l.GetDeployment(); n > 0 {
				p.Word, p.What = "rolled back", fmt.Sprintf("rolled back to deployment %d (%s)", n, ShortHash(pin))
			}
		} else if ModeWord(sync.GetMode()) == "" {
			p.Why = sync.GetReason()
		}
		if s.GetSpec().GetUnpinAfter() != "" {
			p.until = fmt.Sprintf("until %s moves on from %s", FollowedRef(s.GetSpec()),
				ShortHash(s.GetSpec().GetUnpinAfter()))
		}
		out = append(out, p)
	} else if l := levers.GetPin(); l != nil {
		out = append(out, pulled{
			Word: "released", What: "released from the pin of its files", Lever: l,
			Why: l.GetReason(), End: fmt.Sprintf("`fairlead pin service %s`, or pin in its file,", name),
		})
	}
	return out
}

// ModeWord is how a service stands in a mode in which nothing new is applied; empty: it is automatic.
func ModeWord(m deliveryv1.SyncMode) string {
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

// SinceTime is when a lever was pulled; unset: that is not known.
func (p pulled) SinceTime() *timestamppb.Timestamp { return p.Lever.GetSinceTime() }

// PulledBy says who did it.
func (p pulled) PulledBy() string {
	if p.Lever == nil {
		return "by its files"
	}
	return "by " + cmp.Or(p.Lever.GetAuthor(), "nobody known")
}

// DescribePulled returns a text such as: held by user:ada (incident 7), until 2026-01-31T12:00:00Z (in 2h): `fairlead
// resume service web` ends it.
func (v View) DescribePulled(p pulled) string {
	text := p.What + " " + p.PulledBy() + FormatReason(p.Why)
	var until []string
	if p.until != "" {
		until = append(until, p.until)
	}
	if at := p.Lever.GetUntilTime(); IsSet(at) {
		until = append(until, fmt.Sprintf("until %s (%s)", at.AsTime().Local().Format(time.RFC3339), v.UntilText(at)))
	}
	if len(until) > 0 {
		text += ", " + strings.Join(until, " and ")
	}
	return text + ": " + p.End + " ends it"
}

// StateOf is the state of a service, and what keeps it from following: Healthy, held.
func StateOf(s *consolev1.Service) string {
	words := []string{StateName(s.GetStatus().GetState())}
	for _, p := range ListPulled(s) {
		if !strings.EqualFold(p.Word, words[0]) {
			words = append(words, p.Word)
		}
	}
	return strings.Join(words, ", ")
}

// PullNotes say of each lever of a service who pulled it, why, since when and until when.
func (v View) PullNotes(s *consolev1.Service) (notes []note) {
	for _, p := range ListPulled(s) {
		notes = append(notes, note{about: s.GetMetadata().GetName(), text: v.DescribePulled(p), since: p.SinceTime()})
	}
	return notes
}

// FollowedRef is what a service follows, pinned or not: a ref, or a chart and its version.
func FollowedRef(spec *consolev1.ServiceSpec) string {
	if spec.GetChart() != "" {
		return catalog.ShowRef(catalog.RefOf(spec))
	}
	return cmp.Or(refsOf(spec), spec.GetRef(), "HEAD")
}
