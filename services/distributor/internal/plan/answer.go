package plan

import (
	"fmt"
	"strings"
	"time"
)

// Answer is what came of a want.
type Answer struct {
	Want     Want
	Artifact Artifact // if Failure is nil
	Failure  *Failure
}

// Failure is why a want has no artifact.
type Failure struct {
	Kind Kind
	Text string // the text of the gitcache, if that adds something
}

// Kind of a failure.
type Kind int

// The kinds. Only Unavailable is worth another try at the same want.
const (
	Unavailable Kind = iota
	NoFolder
	Refused
)

// patience is how long a failure that may pass by itself stays untold.
const patience = 15 * time.Second

// Answer takes answers in: what is resolved is delivered, what failed is said. A want that failed
// with Unavailable stays open.
func (p *Plan) Answer(now time.Time, answers ...Answer) Change {
	return p.Update(now, func(u *Update) {
		for _, a := range answers {
			// Content at a commit does not change: what comes after the final answer is of a question that was asked twice.
			if w := p.wants[a.Want]; w != nil && !w.answered {
				u.answer(w, a)
			}
		}
	})
}

func (u *Update) answer(w *want, a Answer) {
	f := a.Failure
	switch {
	case f == nil:
		u.resolve(w, a.Artifact)
		return
	case f.Kind != Unavailable:
		w.answered, w.from = true, u.now
		delete(u.plan.open, w)
	case w.problem == nil:
		w.from = u.now.Add(patience)
	}
	w.tried = true
	u.solve(w, f.words(w.key))
}

// whyNoContent says why the service's newest content can't be delivered, if it can't.
func (s *service) whyNoContent() Problem {
	f := s.folder
	switch {
	case f.line.source.is == nil:
		return Problem{Text: missingSource(s.is.Name, f.key.Source), From: f.sourceless}
	case f.want != nil && f.want.problem != nil:
		return Problem{Text: f.want.problem(s.is.Name), From: f.want.from}
	}
	return Problem{}
}

// words is how a failure is told to a person who looks at a service.
func (f *Failure) words(w Want) func(service string) string {
	folder := fmt.Sprintf("folder %q", w.Path)
	if w.Path == "" {
		folder = "the whole repository"
	}
	switch f.Kind {
	case NoFolder:
		return func(service string) string {
			return fmt.Sprintf("service %q: %s is not in commit %s of source %q. Check spec.path.", service, folder, short(w.Commit), w.Source)
		}
	case Refused:
		return func(service string) string {
			return fmt.Sprintf("service %q: %s in commit %s of source %q can't be delivered: %s", service, folder, short(w.Commit), w.Source, sentence(f.Text))
		}
	}
	return func(service string) string {
		return fmt.Sprintf("service %q: commit %s of source %q can't be had from a gitcache: %s It is tried again.",
			service, short(w.Commit), w.Source, sentence(f.Text))
	}
}

func missingSource(service, source string) string {
	return fmt.Sprintf("service %q: source %q is not in the catalog. Create it, or correct spec.source.", service, source)
}

// short is as much of a commit id as people read.
func short(commit string) string { return commit[:min(len(commit), 8)] }

// sentence is the text of somebody else as a sentence in UTF-8.
func sentence(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if s == "" || s[len(s)-1] == '.' {
		return s
	}
	return s + "."
}
