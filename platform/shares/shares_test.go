package shares

import "testing"

func TestOneOwnerTakesNoMoreThanItsShare(t *testing.T) {
	t.Parallel()
	s := New(3)
	if !s.Take("a", 2) || s.Take("a", 2) || !s.Take("a", 1) || s.Take("a", 1) {
		t.Error("a has not exactly its share")
	}
	if !s.Take("b", 3) {
		t.Error("a took of b's share")
	}
	s.Give("a", 1)
	if !s.Take("a", 1) {
		t.Error("what was given back is gone")
	}
	s.Give("a", 3)
	s.Give("b", 3)
	if len(s.held) != 0 {
		t.Errorf("owners are remembered: %v", s.held)
	}
}
