package fetch

import (
	"context"
	"fmt"
	"net/url"
	"testing"
)

// mirroredRemote is a repository of a registry that has a mirror.
func mirroredRemote() Remote {
	return Remote{
		URL: &url.URL{Scheme: "https", Host: "registry.example.com", Path: "/team/shop"}, Secret: "team",
		Registry: Registry{Is: true, Mirrors: "mirror.example.com/cache"},
	}
}

// TestMirrorsRestOnlyForWhatFailed: another repository, secret or proxy may be right where one is wrong.
func TestMirrorsRestOnlyForWhatFailed(t *testing.T) {
	t.Parallel()
	h := NewHTTP(Options{})
	defer h.Close()
	isAsked := func(r Remote, repository string, fault error) (asked bool) {
		t.Helper()
		err := h.fromMirrors(t.Context(), r, repository, func(r Remote, _ string) error {
			if !r.Registry.isMirror {
				return nil
			}
			asked = true
			return fault
		})
		if err != nil {
			t.Errorf("the registry has it, and there is %v", err)
		}
		return asked
	}
	wrong := &Error{Kind: KindCredentials, Message: "401"}
	r := mirroredRemote()
	if !isAsked(r, "team/shop", wrong) || isAsked(r, "team/shop", wrong) {
		t.Error("the mirror does not rest after 401, or rested before")
	}
	otherSecret, otherProxy := r, r
	otherSecret.Secret = "other"
	otherProxy.Proxy = &url.URL{Scheme: "http", Host: "proxy.example.com"}
	if !isAsked(r, "team/other", nil) || !isAsked(otherSecret, "team/shop", nil) || !isAsked(otherProxy, "team/shop", nil) {
		t.Error("the mirror rests for another repository, secret or proxy")
	}
	for i, fault := range []error{
		&Error{Kind: KindNotFound, Message: "404"}, errNoManifest, &Error{Kind: KindStorage, Message: "the disk is full"}, context.DeadlineExceeded,
	} {
		repository := fmt.Sprint("team/", i)
		if !isAsked(r, repository, fault) || !isAsked(r, repository, fault) {
			t.Errorf("the mirror rests after %v", fault)
		}
	}
}

func TestRestingMirrorsAreBounded(t *testing.T) {
	t.Parallel()
	h := NewHTTP(Options{})
	defer h.Close()
	for i := range maxResting + 10 {
		h.resting.note(restingKey{path: fmt.Sprint(i)}, &Error{Kind: KindServer})
	}
	if got := len(h.resting.until); got > maxResting || !h.resting.has(restingKey{path: fmt.Sprint(maxResting + 9)}) {
		t.Errorf("%d are remembered, and the limit is %d", got, maxResting)
	}
}
