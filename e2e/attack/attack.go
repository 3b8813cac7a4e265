// Package attack sends attacks to the running parts of a hub and judges whether each of them was withstood.
//
// An attack is a value: its name, the part that it is sent to, the published cases that it repeats, and what sends it.
// The parts are the built programs over a real Redis, a real PostgreSQL and real Kubernetes API servers (see World).
// Around them, this package plays the hostile ones: a client, a Git host, a cluster, an identity provider, a writer to
// Redis.
//
// After each attack its part has to serve an ordinary request. An attack that could not be sent counts as one that was
// not withstood, so that a corpus that tries nothing can't pass.
package attack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// Attack is one row of the corpus.
type Attack struct {
	Name string
	// CVE are the published cases of other products that the attack repeats.
	CVE []string
	// Part is what the attack is sent to: a process of the stack.
	Part string
	// Alone: nothing else runs meanwhile, because the attack takes a shared thing away or measures memory.
	Alone bool
	// Slow leaves the attack out of the short run.
	Slow bool
	// Run sends the attack. The answer is what the part said or did; an error says why the attack was not withstood.
	Run func(ctx context.Context, t *Try) (answer string, err error)
}

// The parts.
const (
	console     = "console"
	gitcache    = "gitcache"
	distributor = "distributor"
	tunnel      = "tunnel"
	agent       = "agent-a"
	redis       = "redis"
	up          = "up" // `fairlead up`, a hub in one process of its own
)

// hubParts are the processes that listen for strangers.
func hubParts() []string { return []string{console, gitcache, distributor, tunnel} }

const (
	// atOnce is how many attacks run side by side: most of them wait for a part to answer.
	atOnce = 6
	// patience bounds one attack on a machine that is busy.
	patience = 2 * time.Minute
	// mostAfterwards is how long a part may take to serve something ordinary after an attack.
	mostAfterwards = time.Minute
)

// Result counts.
type Result struct{ Tried, Held, Cases int }

// Ok holds if each attack was withstood.
func (r Result) Ok() bool { return r.Tried > 0 && r.Held == r.Tried }

func (r Result) String() string {
	return fmt.Sprintf("tried=%d held=%d cases=%d", r.Tried, r.Held, r.Cases)
}

// Answer is what a part answered to a request.
type Answer struct {
	Code   int
	Header http.Header
	Body   string
}

func (a Answer) String() string {
	var told struct{ Code, Message string }
	if json.Unmarshal([]byte(a.Body), &told) == nil && told.Message != "" {
		return fmt.Sprintf("%d %s: %s", a.Code, told.Code, told.Message)
	}
	return fmt.Sprintf("%d %s", a.Code, a.Body)
}

// want judges an answer by its status.
func (a Answer) want(codes ...int) (string, error) {
	if !slices.Contains(codes, a.Code) {
		return a.String(), fmt.Errorf("the status is %d, not %v", a.Code, codes)
	}
	return a.String(), nil
}

// silentOf fails if one of the words is in text.
func silentOf(text string, words ...string) error {
	for _, word := range words {
		if strings.Contains(text, word) {
			return fmt.Errorf("%q is in the answer", word)
		}
	}
	return nil
}

// says fails unless all words are in text.
func says(text string, words ...string) error {
	for _, word := range words {
		if !strings.Contains(strings.ToLower(text), strings.ToLower(word)) {
			return fmt.Errorf("%q is not in it", word)
		}
	}
	return nil
}

// runner collects the outcomes.
type runner struct {
	world *World
	out   io.Writer

	mu     sync.Mutex // guards what follows
	result Result
	cases  map[string]bool
}

// Run sends the attacks, prints a line for each, and counts.
func Run(ctx context.Context, w *World, attacks []Attack, out io.Writer) (Result, error) {
	if err := check(attacks); err != nil {
		return Result{}, err
	}
	r := &runner{world: w, out: out, cases: map[string]bool{}}
	var side errgroup.Group
	side.SetLimit(atOnce)
	for _, a := range attacks {
		if !a.Alone {
			side.Go(func() error { r.try(ctx, a); return nil })
		}
	}
	_ = side.Wait() // no attack returns an error: it is counted
	for _, a := range attacks {
		if a.Alone {
			r.try(ctx, a)
		}
	}
	r.result.Cases = len(r.cases)
	return r.result, nil
}

// check refuses a corpus whose lines could not be told apart.
func check(attacks []Attack) error {
	seen := map[string]bool{}
	for _, a := range attacks {
		switch {
		case a.Name == "" || a.Part == "" || a.Run == nil:
			return fmt.Errorf("attack %q needs a name, a part and what sends it", a.Name)
		case seen[a.Name]:
			return fmt.Errorf("two attacks are named %q", a.Name)
		}
		seen[a.Name] = true
	}
	return nil
}

func (r *runner) try(ctx context.Context, a Attack) {
	t := r.world.newTry()
	defer t.close()
	bounded, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("gave up after %s", patience))
	defer cancel()
	answer, err := a.Run(bounded, t)
	afterwards, end := context.WithTimeoutCause(ctx, mostAfterwards, fmt.Errorf("gave up after %s", mostAfterwards))
	defer end()
	if alive := r.world.serves(afterwards, a.Part); alive != nil {
		err = errors.Join(err, fmt.Errorf("afterwards %s does not serve: %w", a.Part, alive))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.Tried++
	verdict := "held"
	if err != nil {
		verdict, answer = "did not hold", strings.TrimSpace(answer+" | "+err.Error())
	} else {
		r.result.Held++
		for _, c := range a.CVE {
			r.cases[c] = true
		}
	}
	fmt.Fprintf(r.out, "%-12s %-11s %s: %s\n", verdict, a.Part, a.title(), oneLine(answer))
}

func (a Attack) title() string {
	if len(a.CVE) == 0 {
		return a.Name
	}
	return a.Name + " (" + strings.Join(a.CVE, ", ") + ")"
}

// oneLine makes text fit a line of the report; what a terminal would obey is escaped.
func oneLine(text string) string {
	const most = 300
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return '?'
		}
		return r
	}, text)
}

// Corpus is all attacks, in the order of their doors.
func Corpus() []Attack {
	return slices.Concat(
		strangers(), badFields(), wire(), tokens(), logins(), requests(), hostileAnswers(), content(), gitHosts(), doors(), backends(), shares(), agents(), local(), leftovers(),
	)
}

// Short is the part of the corpus that takes seconds.
func Short() []Attack {
	return slices.DeleteFunc(Corpus(), func(a Attack) bool { return a.Slow })
}
