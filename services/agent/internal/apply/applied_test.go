package apply

import (
	"testing"

	"fairlead.dev/services/agent/internal/inventory"
	"fairlead.dev/services/agent/internal/object"
	"fairlead.dev/services/agent/internal/set"
)

func TestHooksAreNotCountedAmongTheObjects(t *testing.T) {
	t.Parallel()
	item := func(name string, hook object.Hook) set.Item {
		return set.Item{Ref: object.Ref{Key: object.Key{Kind: "Job", Name: name}, Version: "v1"}, Hook: hook}
	}
	items := []set.Item{item("migrate", object.PreSync), item("a", 0), item("b", 0), item("announce", object.PostSync)}
	p := &Progress{items: items, done: map[object.Key]inventory.Entry{items[0].Key: {}, items[1].Key: {}}}
	if got, want := p.Applied(), "1 of 2 objects are applied"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
