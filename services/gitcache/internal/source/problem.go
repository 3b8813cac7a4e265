package source

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"fairlead.dev/platform/plural"
)

// maxTold is how many troubles a message has the texts of, and maxSingle how many refs have one of their own. A source
// may have one for each of thousands of refs, and the console takes 4 MiB with all heads.
const maxTold, maxSingle = 10, 1000

// Problem is why a source is not as it should be; the zero value is that all is well.
type Problem struct {
	Message string
	Since   time.Time
	Refs    []string // the refs of the problem; empty: all of the source.
	// Single are the refs at fault, in order. Where Refs is set the message repeats theirs, else it is about the whole
	// source only.
	Single []RefProblem
}

// RefProblem is what is wrong with one ref.
type RefProblem struct {
	Ref, Message string
	Since        time.Time
	// Missing: upstream does not have it.
	Missing bool
}

// IsRefused tells a problem of more than refs that upstream does not have, which only concern the services that follow
// them.
func (p Problem) IsRefused() bool {
	return p.IsWhole() || slices.ContainsFunc(p.Single, func(one RefProblem) bool { return !one.Missing })
}

// IsWhole tells a problem of the whole source from those of single refs.
func (p Problem) IsWhole() bool { return p.Message != "" && len(p.Refs) == 0 }

// KeepBeginning takes the beginnings of the same faults from what was published before.
func (p *Problem) KeepBeginning(before Problem) {
	earlier := func(since *time.Time, was time.Time) {
		if !was.IsZero() && was.Before(*since) {
			*since = was
		}
	}
	if p.Message != "" && p.Message == before.Message && p.IsWhole() == before.IsWhole() {
		earlier(&p.Since, before.Since)
	}
	for i := range p.Single {
		one := &p.Single[i]
		for _, was := range before.Single {
			if was.Ref == one.Ref && was.Message == one.Message {
				earlier(&one.Since, was.Since)
			}
		}
	}
}

// Equal compares problems.
func (p Problem) Equal(o Problem) bool {
	return p.Message == o.Message && p.Since.Equal(o.Since) && slices.Equal(p.Refs, o.Refs) && slices.EqualFunc(p.Single, o.Single, func(a, b RefProblem) bool {
		return a.Ref == b.Ref && a.Message == b.Message && a.Since.Equal(b.Since) && a.Missing == b.Missing
	})
}

// Trouble is what a poll could not do.
type Trouble struct {
	Ref       string // the ref of the trouble; "": all of the source
	Text      string
	IsMissing bool // upstream does not have the ref
	// Cause is what kept the ref back; nil: its content. IsHere: what the trouble is about is in the mirror all the
	// same.
	Cause  error
	IsHere bool
}

// DescribeTroubles puts troubles into words. A problem that was there before, too, keeps its beginning.
func (s Source) DescribeTroubles(troubles []Trouble, before Problem, now time.Time) (p Problem) {
	var whole, single []string
	told, listed := map[string]bool{}, map[RefProblem]bool{}
	if s.LeftOut > 0 {
		whole = append(whole, fmt.Sprintf("services follow %s beyond the limit of %d for a source, which are not fetched. "+
			"Add another source with the same url for a part of the services", plural.Of(s.LeftOut, "ref"), len(s.Wants)))
	}
	for _, t := range troubles {
		if t.Ref == "" {
			whole = append(whole, t.Text)
			continue
		}
		if !told[t.Text] { // of a ref and of a combination with it
			told[t.Text] = true
			single = append(single, t.Text)
		}
		p.Refs = append(p.Refs, t.Ref)
		one := RefProblem{Ref: t.Ref, Message: s.messagePrefix() + t.Text, Since: now, Missing: t.IsMissing}
		if !listed[one] { // a file may be reached by several folders
			listed[one] = true
			p.Single = append(p.Single, one)
		}
	}
	slices.SortFunc(p.Single, func(a, b RefProblem) int { return cmp.Or(cmp.Compare(a.Ref, b.Ref), cmp.Compare(a.Message, b.Message)) })
	p.Single = p.Single[:min(len(p.Single), maxSingle)]
	for i := range p.Single {
		one := &p.Single[i]
		if at := slices.IndexFunc(before.Single, func(was RefProblem) bool { return was.Ref == one.Ref && was.Message == one.Message }); at >= 0 {
			one.Since = before.Single[at].Since
		}
	}
	texts := single
	if len(whole) > 0 {
		texts, p.Refs = whole, nil
	}
	if len(texts) == 0 {
		return Problem{}
	}
	if more := len(texts) - maxTold; more > 0 {
		texts = append(slices.Clip(texts[:maxTold]), fmt.Sprintf("and %d more", more))
	}
	p.Message, p.Since = s.messagePrefix()+strings.Join(texts, "; "), now
	if before.Message == p.Message && before.IsWhole() == p.IsWhole() {
		p.Since = before.Since
	}
	slices.Sort(p.Refs)
	p.Refs = slices.Compact(p.Refs)
	return p
}

// TextIn is the text of the trouble that the problem of a ref was made of.
func (p RefProblem) TextIn(s Source) string { return strings.TrimPrefix(p.Message, s.messagePrefix()) }

// messagePrefix begins what is told of a source.
func (s Source) messagePrefix() string { return fmt.Sprintf("source %q: ", s.Name) }
