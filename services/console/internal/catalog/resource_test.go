package catalog

import (
	"encoding/json"
	"testing"

	"fairlead.dev/services/console/internal/store"
)

// A spec that was stored before a field was there is read, and written again as the same bytes: applying it again
// changes nothing.
func TestOldRowsAreReadAndStayTheSame(t *testing.T) {
	t.Parallel()
	for kind, spec := range map[store.Kind]string{
		store.KindSource:  `{"git":{"url":"https://git.example.com/shop","intervalNanos":30000000000,"secret":"git"}}`,
		store.KindService: `{"source":"shop","ref":"main","path":"deploy","cluster":"edge-1","namespace":"web"}`,
	} {
		c, err := DecodeChange(store.Change{Kind: kind, Resource: store.Resource{Kind: kind, Name: "x", Spec: []byte(spec)}, Heads: store.Heads{State: []byte(`{"heads":[{"ref":"HEAD"}]}`)}})
		if err != nil {
			t.Fatal(err)
		}
		var again []byte
		if c.Source != nil {
			again, err = json.Marshal(c.Source.Spec)
		} else {
			again, err = json.Marshal(c.Service.Spec)
		}
		if err != nil || string(again) != spec {
			t.Errorf("%s became %s, %v", spec, again, err)
		}
	}
}
