package webhook

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	// askTime bounds a question to the console.
	askTime = 5 * time.Second
	// retry is how long a failure stands: strangers must not make us ask for each of theirs.
	retry = 10 * time.Second
	// maxTokens bounds what is remembered; each is asked for again when it is needed.
	maxTokens = 10000
)

// tokens remembers the tokens of secrets by their revisions: a secret that did not change is not asked
// for again, so webhooks go on with the console down.
type tokens struct {
	read func(ctx context.Context, secret string) (string, error)

	mu    sync.Mutex // guards known; each entry guards itself
	known map[string]*entry
}

type entry struct {
	mu       sync.Mutex // guards what follows; held while the console is asked: one asks for all
	uid      string
	revision int64
	token    []byte
	err      error
	asked    time.Time
}

func newTokens(read func(context.Context, string) (string, error)) *tokens {
	return &tokens{read: read, known: map[string]*entry{}}
}

func (t *tokens) of(ctx context.Context, s Source) ([]byte, error) {
	t.mu.Lock()
	if len(t.known) >= maxTokens {
		clear(t.known)
	}
	e, ok := t.known[s.Secret]
	if !ok {
		e = &entry{}
		t.known[s.Secret] = e
	}
	t.mu.Unlock()

	e.mu.Lock()
	defer e.mu.Unlock()
	same := e.uid == s.SecretUID && e.revision == s.SecretRevision
	if same && (e.err == nil || time.Since(e.asked) < retry) {
		return e.token, e.err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTime) // other requests may wait for the token, too
	defer cancel()
	token, err := t.read(ctx, s.Secret)
	if err == nil && token == "" { // which anybody could sign with
		err = fmt.Errorf("secret %q has no token. Add the key", s.Secret)
	}
	e.uid, e.revision, e.token, e.err, e.asked = s.SecretUID, s.SecretRevision, []byte(token), err, time.Now()
	return e.token, e.err
}
