package state

import (
	"encoding/json"
	"errors"
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
		row := store.Resource{Kind: kind, Name: "x", Spec: []byte(spec)}
		source, errSource := ReadSource(row)
		service, errService := ReadService(row)
		var again []byte
		var err error
		if kind == store.KindSource {
			again, err = json.Marshal(source.Spec)
		} else {
			again, err = json.Marshal(service.Spec)
		}
		if err := errors.Join(errSource, errService, err); err != nil || string(again) != spec {
			t.Errorf("%s became %s, %v", spec, again, err)
		}
	}
}
