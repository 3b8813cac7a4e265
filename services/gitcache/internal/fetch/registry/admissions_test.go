package registry

import (
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/services/gitcache/internal/upstream"
)

// TestLoginsThatNobodyUsesAreForgotten: those of a cloud are others after some hours.
func TestLoginsThatNobodyUsesAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newAdmissions()
		with := func(password string) upstream.Remote {
			return upstream.Remote{
				URL:         &url.URL{Scheme: "https", Host: "registry.example.com"},
				Credentials: upstream.Credentials{Password: password},
			}
		}
		old, used, next := with("old"), with("used"), with("next")
		l.rememberAdmission(old, "shop", admission{})
		l.rememberAdmission(used, "shop", admission{})
		for range 3 {
			<-time.After(admissionTime / 2)
			if _, ok := l.admissionOf(used, "shop"); !ok {
				t.Error("a login that is used is forgotten")
			}
		}
		l.rememberAdmission(next, "shop", admission{})
		if _, ok := l.known[keyOf(old, "shop")]; ok || len(l.known) != 2 {
			t.Errorf("%d are remembered, the old one: %t", len(l.known), ok)
		}
	})
}
