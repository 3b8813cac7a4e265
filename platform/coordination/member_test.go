package coordination

import (
	"testing"
	"time"
)

func FuzzDecodeMember(f *testing.F) {
	f.Add([]byte(`{"id":"one","url":"https://one","meta":{"zone":"a"}}`))
	f.Add([]byte(`{"id":""}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := decodeMember(data)
		if err != nil {
			return
		}
		again, err := encodeMember("g", m, time.Minute)
		if err != nil {
			t.Skip("grows beyond the limit when escaped")
		}
		if back, err := decodeMember(again); err != nil || back.ID == "" {
			t.Fatalf("%q does not come back: %v", again, err)
		}
	})
}
