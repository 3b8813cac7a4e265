package console

import (
	"fmt"
	"slices"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/catalog"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/source"
)

// combinations are what services with several sources want of the first of these. Their refs are taken out of the
// wants, which are asked for upstream.
func (c *Catalog) combinations(first *consolev1.Source, wants map[string]int) map[string]source.Combination {
	all := map[string]source.Combination{}
	for ref, parts := range c.catalog.CombinationsOf(first.GetMetadata().GetName()) {
		is := source.Combination{}
		for _, p := range parts {
			is.Parts = append(is.Parts, c.part(first, p))
		}
		all[ref] = is
	}
	for ref := range wants {
		combination, pin, ok := catalog.ParseCombinationRef(ref)
		if !ok {
			continue
		}
		delete(wants, ref)
		if is, known := all[combination]; known && pin != "" {
			is.Pins = append(is.Pins, git.HashOf(pin))
			all[combination] = is
		}
	}
	for ref, is := range all {
		slices.SortFunc(is.Pins, git.Hash.Compare)
		all[ref] = is
	}
	return all
}

// part is one of several sources as it was published last. Of the first one the owner knows more.
func (c *Catalog) part(first *consolev1.Source, p catalog.Part) source.Part {
	part := source.Part{Name: p.Name, Source: p.Source, Ref: p.Ref}
	for _, folder := range p.Folders() {
		part.Folders = append(part.Folders, source.PartFolder{Path: folder.Path, Include: folder.Include.Lines(), Ignore: folder.Ignore.Lines()})
	}
	s, ok := c.catalog.Source(p.Source)
	if !ok {
		part.Problem = fmt.Sprintf("source %q is not in the catalog. Apply it, or correct the name in the service", p.Source)
		return part
	}
	part.UID = s.GetMetadata().GetUid()
	part.Submodules, part.Dependencies = s.GetSpec().GetGit().GetSubmodules(), catalog.HasDependencies(s.GetSpec())
	if part.UID == first.GetMetadata().GetUid() {
		return part
	}
	if head, published := catalog.Head(s, p.Ref); published {
		for _, h := range Heads([]*consolev1.Head{head}) {
			part.Head = h
		}
	}
	part.Problem = problemOf(s.GetStatus().GetProblem(), p.Ref)
	return part
}

// problemOf is what a source's problem says of a ref; empty: nothing.
func problemOf(m *consolev1.Problem, ref string) string {
	for _, one := range m.GetRefProblems() {
		if one.GetRef() == ref {
			return one.GetMessage()
		}
	}
	if m.GetMessage() != "" && (len(m.GetRefs()) == 0 || len(m.GetRefProblems()) == 0 && slices.Contains(m.GetRefs(), ref)) {
		return m.GetMessage()
	}
	return ""
}

// headAt finds a published commit among heads, by a ref or by its own id. What several sources became is not found by
// its id alone: it has files of other sources.
func headAt(heads []*consolev1.Head, ref string) (commit string, ok bool) {
	combination, pin, several := catalog.ParseCombinationRef(ref)
	for _, h := range heads {
		at := h.GetRevision().GetCommit()
		switch {
		case h.GetRef() == ref, several && h.GetRef() == combination && at == pin, !several && !catalog.IsCombination(h.GetRef()) && at == ref:
			return at, true
		}
	}
	return "", false
}
