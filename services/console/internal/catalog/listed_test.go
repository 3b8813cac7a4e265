package catalog

import (
	"testing"

	"fairlead.dev/services/console/internal/store"
)

func TestResourcesAreListedForAPerson(t *testing.T) {
	t.Parallel()
	a, b := store.Ref{Kind: store.KindService, Name: "a"}, store.Ref{Kind: store.KindSource, Name: "b"}
	for want, got := range map[string]string{
		"":                                 listed(nil, false),
		`service "a"`:                      listed([]store.Ref{a}, false),
		`service "a", source "b"`:          listed([]store.Ref{a, b}, false),
		`service "a", source "b" and more`: listed([]store.Ref{a, b}, true),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
