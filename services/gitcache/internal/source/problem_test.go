package source

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestAProblemHasABoundedText(t *testing.T) {
	t.Parallel()
	var troubles []Trouble
	for i := range 1000 {
		troubles = append(troubles, Trouble{
			Ref:  fmt.Sprintf("refs/heads/%04d", i),
			Text: fmt.Sprintf("trouble %04d", i),
		})
	}
	p := (Source{Name: "shop"}).DescribeTroubles(troubles, Problem{}, time.Now())
	if !strings.HasSuffix(p.Message, "trouble 0009; and 990 more") || len(p.Single) != 1000 || len(p.Refs) != 1000 {
		t.Errorf("told are %q, %d refs", p.Message, len(p.Refs))
	}
	if p := (Source{Name: "shop"}).DescribeTroubles(troubles[:maxTold], Problem{}, time.Now()); !strings.HasSuffix(p.Message, "trouble 0009") {
		t.Errorf("told are %q", p.Message)
	}
}

// TestRefsBeyondTheLimitAreTold: nothing else says why they are not fetched.
func TestRefsBeyondTheLimitAreTold(t *testing.T) {
	t.Parallel()
	s := Source{Name: "shop", Wants: map[string]int{"refs/heads/a": 1, "refs/heads/b": 1}, LeftOut: 3}
	p := s.DescribeTroubles(nil, Problem{}, time.Now())
	if !p.IsWhole() || !strings.Contains(p.Message, "follow 3 refs beyond the limit of 2 for a source") {
		t.Errorf("told %+v", p)
	}
	s.LeftOut = 0
	if p = s.DescribeTroubles(nil, p, time.Now()); p.Message != "" {
		t.Errorf("told %+v of a source with few refs", p)
	}
}

// TestTroublesOfManyRefsFitIntoAPublication: the console takes 4 MiB in one, and the heads are in it, too.
func TestTroublesOfManyRefsFitIntoAPublication(t *testing.T) {
	t.Parallel()
	var troubles []Trouble
	for i := range 9000 {
		ref := fmt.Sprintf("refs/heads/review/%05d", i)
		troubles = append(troubles, Trouble{Ref: ref, Text: ref + strings.Repeat(" is gone upstream", 20), IsMissing: true})
	}
	s := Source{Name: "shop"}
	first := s.DescribeTroubles(troubles, Problem{}, time.Unix(1, 0))
	p := s.DescribeTroubles(troubles, first, time.Unix(2, 0))
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
