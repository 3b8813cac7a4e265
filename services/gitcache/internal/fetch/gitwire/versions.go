package gitwire

import (
	"sync"
	"time"

	"fairlead.dev/services/gitcache/internal/upstream"
)

// Versions are what is remembered of hosts, so that a poll is one request, and one that finds no use in version 2
// does not try it again with every poll. All of it is for speed: a host that changed is found out by its answer.
type Versions struct {
	mu sync.Mutex // guards what follows
	// speaks2 are repositories that answered in version 2 under their own URL, and until when they are asked in it
	// at once, without a look at what the host can do.
	speaks2 map[string]time.Time
	// fails2 are hosts (see Remote.DoorOf) that can't list in version 2, and repositories that can't be fetched in it,
	// and until when they are asked in version 0.
	fails2 map[string]time.Time
}

const (
	speaksTime = time.Hour
	// failsTime is short: version 0 of a repository with many refs is costly, and a single answer that was cut
	// off on its way looks like a failure, too.
	failsTime = 10 * time.Minute
	// maxSpeaks2 and maxFails2 bound the memory that takes, about 200 bytes each.
	maxSpeaks2 = 16 << 10
	maxFails2  = 16 << 10
)

// NewVersions knows no host yet.
func NewVersions() *Versions {
	return &Versions{speaks2: map[string]time.Time{}, fails2: map[string]time.Time{}}
}

// repositoryKey is the key of a source's repository: as it is reached by the source's own way.
func repositoryKey(r upstream.Remote) string { return r.DoorOf(r.URL) + r.URL.EscapedPath() }

// SpeaksTwo tells whether a repository is asked in version 2 at once.
func (v *Versions) SpeaksTwo(r upstream.Remote) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return time.Now().Before(v.speaks2[repositoryKey(r)])
}

// FailsTwo tells whether a repository is asked in version 0.
func (v *Versions) FailsTwo(r upstream.Remote) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := time.Now()
	return now.Before(v.fails2[r.DoorOf(r.URL)]) || now.Before(v.fails2[repositoryKey(r)])
}

// NoteSpeaks notes that a repository answered in version 2 under its own URL.
func (v *Versions) NoteSpeaks(r upstream.Remote) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.speaks2) >= maxSpeaks2 {
		clear(v.speaks2)
	}
	v.speaks2[repositoryKey(r)] = time.Now().Add(speaksTime)
}

// ForgetHost makes the next poll of a repository look at what the host can do.
func (v *Versions) ForgetHost(r upstream.Remote) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.speaks2, repositoryKey(r))
}

// NoteFails notes that the host of a source can't list in version 2.
func (v *Versions) NoteFails(r upstream.Remote) { v.noteKey(r, r.DoorOf(r.URL)) }

// NoteFetchFails notes that one repository can't be fetched in version 2. The failure says nothing about other
// repositories of the host.
func (v *Versions) NoteFetchFails(r upstream.Remote) { v.noteKey(r, repositoryKey(r)) }

// noteKey remembers a key of fails2.
func (v *Versions) noteKey(r upstream.Remote, key string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.speaks2, repositoryKey(r))
	if len(v.fails2) >= maxFails2 {
		clear(v.fails2)
	}
	v.fails2[key] = time.Now().Add(failsTime)
}
