package registry

import (
	"context"
	"crypto/sha256"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/services/gitcache/internal/oci"
	"fairlead.dev/services/gitcache/internal/upstream"
)

func newRegistries(o upstream.Options) *Registries {
	return New(upstream.NewClient(o), o.Dir)
}

// mirroredRemote is a repository of a registry that has a mirror.
func mirroredRemote() upstream.Remote {
	return upstream.Remote{
		URL: &url.URL{Scheme: "https", Host: "registry.example.com", Path: "/team/shop"}, Secret: "team",
		Registry: upstream.Registry{Is: true, Mirrors: "mirror.example.com/cache"},
	}
}

// TestMirrorsRestOnlyForWhatFailed: another repository, secret or proxy may be right where one is wrong.
func TestMirrorsRestOnlyForWhatFailed(t *testing.T) {
	t.Parallel()
	h := newRegistries(upstream.Options{})
	defer h.client.Close()
	isAsked := func(r upstream.Remote, repository string, fault error) (asked bool) {
		t.Helper()
		err := h.fromMirrors(t.Context(), r, repository, func(r upstream.Remote, _ string) error {
			if !r.Registry.IsMirror {
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
	wrong := &upstream.Error{Kind: upstream.KindCredentials, Message: "401"}
	r := mirroredRemote()
	if !isAsked(r, "team/shop", wrong) || isAsked(r, "team/shop", wrong) {
		t.Error("the mirror does not rest after 401, or rested before")
	}
	otherSecret, otherProxy := r, r
	otherSecret.Secret = "other"
	otherProxy.Proxy = &url.URL{Scheme: "http", Host: "proxy.example.com"}
	if !isAsked(r, "team/other", nil) || !isAsked(otherSecret, "team/shop", nil) ||
		!isAsked(otherProxy, "team/shop", nil) {
		t.Error("the mirror rests for another repository, secret or proxy")
	}
	for i, fault := range []error{
		&upstream.Error{Kind: upstream.KindNotFound, Message: "404"}, errNoManifest,
		&upstream.Error{Kind: upstream.KindStorage, Message: "the disk is full"}, context.DeadlineExceeded,
	} {
		repository := fmt.Sprint("team/", i)
		for range 2 {
			if !isAsked(r, repository, fault) {
				t.Errorf("the mirror rests after %v", fault)
			}
		}
	}
}

// TestAFullDiskIsNotTheFaultOfWhatAMirrorHas: the layer is good, and the gitcache can't keep what is in it.
func TestAFullDiskIsNotTheFaultOfWhatAMirrorHas(t *testing.T) {
	t.Parallel()
	const text = "a layer"
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }))
	defer s.Close()
	h := newRegistries(upstream.Options{Addresses: upstream.NewPolicy([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}), Dir: t.TempDir()})
	defer h.client.Close()
	r := mirroredRemote()
	r.Registry.Mirrors = strings.TrimPrefix(s.URL, "https://")
	r.Credentials.CA = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	layer := oci.Layer{
		Digest: oci.Digest(fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text)))),
		Size:   int64(len(text)),
	}
	_, err := h.getBlob(t.Context(), r, "team/shop", layer, func(io.Reader) error {
		return fmt.Errorf("unpack: %w", &os.PathError{Op: "write", Path: "/data/tmp_1", Err: syscall.ENOSPC})
	})
	known, ok := errors.AsType[*upstream.Error](err)
	if !ok || known.Kind != upstream.KindStorage || !strings.Contains(err.Error(), "no space left") ||
		strings.Contains(err.Error(), "/data") {
		t.Errorf("got %v", err)
	}
}

func TestRestingMirrorsAreBounded(t *testing.T) {
	t.Parallel()
	h := newRegistries(upstream.Options{})
	defer h.client.Close()
	for i := range maxResting + 10 {
		h.resting.noteRest(restingKey{path: fmt.Sprint(i)}, &upstream.Error{Kind: upstream.KindServer})
	}
	if got := len(h.resting.until); got > maxResting || !h.resting.isResting(restingKey{path: fmt.Sprint(maxResting + 9)}) {
		t.Errorf("%d are remembered, and the limit is %d", got, maxResting)
	}
}

// TestAMirrorThatOutlastsARequestRests: the next request would end at it, too. A caller that leaves at once says
// nothing of the mirror.
func TestAMirrorThatOutlastsARequestRests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newRegistries(upstream.Options{})
		defer h.client.Close()
		isAsked := func(patience time.Duration) (asked bool) {
			ctx, leave := context.WithTimeout(t.Context(), patience)
			defer leave()
			_ = h.fromMirrors(ctx, mirroredRemote(), "team/shop", func(r upstream.Remote, _ string) error {
				if !r.Registry.IsMirror {
					return nil
				}
				asked = true
				<-ctx.Done()
				return ctx.Err()
			})
			return asked
		}
		if !isAsked(time.Second) || !isAsked(time.Minute) {
			t.Error("the mirror rests because a caller left at once")
		}
		if isAsked(time.Minute) {
			t.Error("the mirror that outlasted a request is asked by the next one")
		}
	})
}
