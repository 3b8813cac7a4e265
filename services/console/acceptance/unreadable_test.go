package acceptance

import (
	"strings"
	"testing"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/identity"
	"fairlead.dev/services/console/internal/store"
)

// damageSealed makes what is sealed of the resources of a kind unreadable.
func (h *hub) damageSealed(t *testing.T, kind store.Kind) {
	t.Helper()
	s, err := store.New(h.db, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.RenewSealed(t.Context(), func(v store.Sealed) ([]byte, error) {
		if v.Kind == kind {
			return []byte("damaged"), nil
		}
		return nil, nil
	}); err != nil {
		t.Fatal(err)
	}
}

// Values that nobody can read any more are written anew by a person who has them.
func TestWhatCantBeReadIsWrittenAnew(t *testing.T) {
	t.Parallel()
	for name, db := range eitherDatabase(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHub(t, db)
			r := h.start(t)
			web := func(own string) *consolev1.Service {
				return configured(newService("web", "shop", "edge-1"), nil, settings{"own": secretOf(own), "pw": refTo("pw", "password")})
			}
			r.admin(t).must(t, newSource("shop"), newCluster("edge-1"), newSecret("pw", "password", "hunter2"), web("hunter3"))
			for _, of := range []struct {
				kind          store.Kind
				without, anew *consolev1.Resource
				refused       string
			}{
				{
					store.KindSecret, anyOf(newSecret("pw", "password", ""))[0], anyOf(newSecret("pw", "password", "hunter4"))[0],
					`data["password"]: the value that it has can't be read: write all values of the secret`,
				},
				{
					store.KindService, anyOf(web(""))[0], anyOf(web("hunter5"))[0],
					`spec.config["own"].secret: the value that it has can't be read: write all secret ones`,
				},
			} {
				r.stop()
				h.damageSealed(t, of.kind)
				r = h.start(t)
				_, err := r.admin(t).apply(t, &consolev1.ApplyRequest{Resources: []*consolev1.Resource{of.without}})
				if err == nil || !strings.Contains(err.Error(), of.refused) {
					t.Errorf("a %s whose value is to stay: %v", of.kind, err)
				}
				if _, err := r.admin(t).apply(t, &consolev1.ApplyRequest{Resources: []*consolev1.Resource{of.anew}}); err != nil {
					t.Fatalf("a %s that is written anew: %v", of.kind, err)
				}
			}
			admin := r.admin(t)
			if got := admin.current(t, r.service(t, identity.ServiceDistributor), "web"); got["own"] != "hunter5" || got["pw"] != "hunter4" {
				t.Errorf("got %v", got)
			}
		})
	}
}
