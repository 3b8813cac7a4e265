package acceptance

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/identity"
	"fairlead.dev/services/console/internal/store"
)

// damageSealed makes the sealed values of Secrets and of services unreadable.
func (h *hub) damageSealed(t *testing.T) {
	t.Helper()
	s, err := store.New(h.db, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.RenewSealed(t.Context(), func(v store.Sealed) ([]byte, error) {
		if v.Kind == store.KindSecret || v.Kind == store.KindService {
			return []byte("damaged"), nil
		}
		return nil, nil
	}); err != nil {
		t.Fatal(err)
	}
}

// Values that nobody can read any more are written anew by a person who has them, one resource after the other, and
// levers can be pulled meanwhile.
func TestWhatCantBeReadIsWrittenAnew(t *testing.T) {
	t.Parallel()
	for name, db := range eitherDatabase(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHub(t, db)
			r := h.start(t)
			web := func(own, more string) *consolev1.Service {
				return configured(newService("web", "shop", "edge-1"), nil, settings{
					"own": secretOf(own), "more": secretOf(more), "pw": refTo("pw", "password"), "other": refTo("other", "password"),
				})
			}
			r.admin(t).must(t, newSource("shop"), newCluster("edge-1"), newSecret("pw", "password", "hunter2"),
				newSecret("other", "password", "hunter2"), web("hunter3", "hunter3"))
			r.stop()
			h.damageSealed(t)
			r = h.start(t)
			admin := r.admin(t)
			write := func(dry bool, what *consolev1.Resource) ([]*consolev1.Applied, error) {
				t.Helper()
				return admin.apply(t, &consolev1.ApplyRequest{Resources: []*consolev1.Resource{what}, DryRun: dry})
			}
			of := func(m proto.Message) *consolev1.Resource { return anyOf(m)[0] }
			if got, err := write(false, of(web("", ""))); err != nil || got[0].GetOutcome() != consolev1.ApplyOutcome_APPLY_OUTCOME_UNCHANGED {
				t.Errorf("a service whose values are to stay: %v, %v", got, err)
			}
			for refused, what := range map[string]*consolev1.Resource{
				`data["password"]: the value that it has can't be read: write all values of the secret`:  of(newSecret("pw", "password", "")),
				`spec.config["more"].secret: the value that it has can't be read: write all secret ones`: of(web("hunter5", "")),
			} {
				if _, err := write(false, what); err == nil || !strings.Contains(err.Error(), refused) {
					t.Errorf("got %v, want %s", err, refused)
				}
			}
			for _, what := range []*consolev1.Resource{
				of(newSecret("pw", "password", "hunter4")), of(newSecret("other", "password", "hunter4")), of(web("hunter5", "hunter5")),
			} {
				for _, dry := range []bool{true, false} {
					if got, err := write(dry, what); err != nil || got[0].GetOutcome() != consolev1.ApplyOutcome_APPLY_OUTCOME_UPDATED {
						t.Fatalf("written anew: %v, %v", got, err)
					}
				}
			}
			got := admin.current(t, r.service(t, identity.ServiceDistributor), "web")
			if got["own"] != "hunter5" || got["more"] != "hunter5" || got["pw"] != "hunter4" || got["other"] != "hunter4" {
				t.Errorf("got %v", got)
			}
		})
	}
}
