package owner

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"fairlead.dev/services/gitcache/internal/fetch/gitwire"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/mirror"
)

// TestAPollLooksAtTheServicesOnce, however many refs are gone: a source may have hundreds of thousands of services.
func TestAPollLooksAtTheServicesOnce(t *testing.T) {
	t.Parallel()
	looks := 0
	tn := newTenure(Source{
		Name: "shop", Wants: map[string]int{"refs/heads/a": 1, "refs/heads/b": 1},
		Users: func() func(string) []string {
			looks++
			return func(ref string) []string { return []string{"of-" + strings.TrimPrefix(ref, branchPrefix)} }
		},
	})
	m, commit := fetched(t)
	tn.mirror, tn.heads = m, map[string]mirror.Head{}
	for polls := range 2 {
		p := tn.makePlan(tn.loop.currentSource(), &gitwire.Listing{Refs: map[string]git.Hash{RefHead: commit}})
		if len(p.troubles) != 2 || !strings.Contains(p.troubles[1].text, `service "of-b"`) {
			t.Errorf("told %+v", p.troubles)
		}
		if looks != polls+1 {
			t.Errorf("looked %d times at the services in %d polls", looks, polls+1)
		}
	}
}

// TestRefsBeyondTheLimitAreTold: nothing else says why they are not fetched.
func TestRefsBeyondTheLimitAreTold(t *testing.T) {
	t.Parallel()
	s := Source{Name: "shop", Wants: map[string]int{"refs/heads/a": 1, "refs/heads/b": 1}, LeftOut: 3}
	p := describeTroubles(s, nil, Problem{}, time.Now())
	if !p.IsWhole() || !strings.Contains(p.Message, "follow 3 refs beyond the limit of 2 for a source") {
		t.Errorf("told %+v", p)
	}
	s.LeftOut = 0
	if p = describeTroubles(s, nil, p, time.Now()); p.Message != "" {
		t.Errorf("told %+v of a source with few refs", p)
	}
}

// TestTroublesOfManyRefsFitIntoAPublication: the console takes 4 MiB in one, and the heads are in it, too.
func TestTroublesOfManyRefsFitIntoAPublication(t *testing.T) {
	t.Parallel()
	var troubles []trouble
	for i := range 9000 {
		ref := fmt.Sprintf("refs/heads/review/%05d", i)
		troubles = append(troubles, trouble{ref: ref, text: ref + strings.Repeat(" is gone upstream", 20), isMissing: true})
	}
	s := Source{Name: "shop"}
	first := describeTroubles(s, troubles, Problem{}, time.Unix(1, 0))
	p := describeTroubles(s, troubles, first, time.Unix(2, 0))
	bytes := len(p.Message)
	for _, ref := range p.Refs {
		bytes += len(ref)
	}
	for _, one := range p.Single {
		bytes += len(one.Ref) + len(one.Message)
	}
	if bytes > 1<<20 || len(p.Refs) != len(troubles) || !p.Equal(first) {
		t.Errorf("the problem of %d refs has %d bytes, and began at %v", len(p.Refs), bytes, p.Since)
	}
}
