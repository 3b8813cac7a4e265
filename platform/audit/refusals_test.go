package audit

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"fairlead.dev/platform/identity"
)

// A caller that is refused again and again does not fill the trail, and how often it was is told later.
func TestRefusalsOfOneCallerAreBounded(t *testing.T) {
	t.Parallel()
	var f Refusals
	now := time.Unix(600, 0)
	told := 0
	for range 1000 {
		if _, tell := f.count("agent:edge-1", now); tell {
			told++
		}
	}
	if told != refusalsPerMinute {
		t.Errorf("told %d times", told)
	}
	if untold, tell := f.count("agent:edge-2", now); !tell || untold != 0 {
		t.Error("another caller is not told of")
	}
	if untold, tell := f.count("agent:edge-1", now.Add(time.Minute)); !tell || untold != 1000-refusalsPerMinute {
		t.Errorf("a minute later: %d, %v", untold, tell)
	}
}

// Nor does it fill the log.
func TestRefusalsOfOneCallerAreLoggedAsTheyAreRecorded(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	f := Refusals{Log: slog.New(slog.NewJSONHandler(&log, nil))}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r = r.WithContext(identity.NewContext(r.Context(), identity.Identity{Kind: identity.KindAgent, Name: "edge-1"}))
	for range 10 * refusalsPerMinute {
		f.Artifact(r, "sha256:x", "no")
	}
	// Two minutes, if one ends meanwhile.
	if n := bytes.Count(log.Bytes(), []byte("\n")); n < refusalsPerMinute || n > 2*refusalsPerMinute {
		t.Errorf("%d lines: %.300s", n, log.Bytes())
	}
}

// Strangers may have many addresses: those of all together are bounded, too.
func TestRefusalsOfStrangersAreBounded(t *testing.T) {
	t.Parallel()
	var all refused
	now := time.Unix(600, 0)
	told := 0
	for range 5000 {
		if _, tell := all.count(strangersPerMinute, now); tell {
			told++
		}
	}
	untold, tell := all.count(strangersPerMinute, now.Add(time.Minute))
	if told != strangersPerMinute || !tell || untold != 5000-strangersPerMinute {
		t.Errorf("told %d times; a minute later: %d, %t", told, untold, tell)
	}
}

func TestRefusalsThatNobodyWasToldOfAreAllCounted(t *testing.T) {
	t.Parallel()
	var f Refusals
	now := time.Unix(600, 0)
	refused, told := 0, 0
	refuse := func(remote string) {
		refused++
		if untold, tell := f.countStranger(remote, now); tell {
			told += 1 + untold
		}
	}
	for range 100 {
		refuse("192.0.2.1")
	}
	now = now.Add(time.Minute)
	for i := range strangersPerMinute {
		refuse(fmt.Sprintf("198.51.100.%d", i))
	}
	refuse("192.0.2.1")
	now = now.Add(time.Minute)
	refuse("203.0.113.1")
	if told != refused {
		t.Errorf("%d were refused, and %d are told of", refused, told)
	}
}
