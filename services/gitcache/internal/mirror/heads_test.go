package mirror_test

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/mirror"
)

// countedHash is a hash with n bytes more from byte to byte.
func countedHash(first, n byte) (id git.Hash) {
	for i := range id {
		id[i] = first + byte(i)*n
	}
	return id
}

// frozenHeads are what testdata/heads.json says. A gitcache of commit b90103b wrote that file.
func frozenHeads() map[string]mirror.Head {
	one, two, three := countedHash(0, 1), countedHash(236, 1), countedHash(0, 10)
	at := time.Date(2025, 2, 3, 4, 5, 6, 0, time.UTC)
	fetched := at.Add(61*time.Second + 89*time.Millisecond)
	return map[string]mirror.Head{
		"HEAD": {Ref: "HEAD", Commit: one, CommitTime: at, FetchTime: fetched},
		"refs/tags/v1": {
			Ref: "refs/tags/v1", Object: two, Commit: one, CommitTime: at, Subject: "Add a chart", Author: "Ada",
			Traceparent: "00-1-2-01", FetchTime: fetched, Resolved: "refs/tags/v1", SignedBy: "SHA256:key", Newer: "v2",
			Submodules: []git.Hash{three, two},
		},
	}
}

// TestHeadsAreStoredAsEver: a gitcache reads the heads that any other release wrote, the older one after a way back
// included. Hashes are lists of numbers in that file, and no text.
func TestHeadsAreStoredAsEver(t *testing.T) {
	t.Parallel()
	want, err := os.ReadFile("testdata/heads.json")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "u1", "heads.json")
	if err := open(t, dir).SetHeads(frozenHeads()); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != string(want) {
		t.Errorf("heads are written otherwise, %v:\n%s", err, got)
	}
	if err := os.WriteFile(path, want, 0o600); err != nil {
		t.Fatal(err)
	}
	got := open(t, dir).Heads()
	if !reflect.DeepEqual(got, frozenHeads()) {
		t.Errorf("read %+v of %v", got, slices.Sorted(maps.Keys(got)))
	}
}
