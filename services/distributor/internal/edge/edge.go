// Package edge is the distributor as an edge of the content network: it asks gitcaches, which are the
// origin, and brings their bytes into the node's store.
package edge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"connectrpc.com/connect"

	artifactv1 "fairlead.dev/gen/fairlead/artifact/v1"
	"fairlead.dev/gen/fairlead/artifact/v1/artifactv1connect"
	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/client"
	"fairlead.dev/platform/coordination"
	"fairlead.dev/platform/identity"
	"fairlead.dev/services/distributor/internal/plan"
)

const (
	// group is where gitcaches say that they live.
	group = "gitcache"
	// membersTTL is how old the list of gitcaches may be. With coordination down it is kept beyond
	// that, and coordination is left alone for as long: each question to it can take seconds then.
	membersTTL = 5 * time.Second
	// resolveTimeout bounds one question to one gitcache, which may build many artifacts for it.
	resolveTimeout = 2 * time.Minute
	// maxURL of a question that is asked by GET.
	maxURL = 8 << 10
	// fetchesAtOnce bounds the artifacts that are brought here at the same time: a node whose cache is lost is asked
	// for all of them at once. The others wait.
	fetchesAtOnce = 64
)

// Coordination is what the edge asks of platform/coordination.
type Coordination interface {
	Members(ctx context.Context, group string) ([]coordination.Member, error)
	Holder(ctx context.Context, key string) (string, error)
}

// Config of an Edge.
type Config struct {
	Static       []string // URLs of gitcaches that are there besides those that coordination knows
	Coordination Coordination
	RPC          *http.Client // for Connect, with Options
	Options      []connect.ClientOption
	Bytes        *http.Client // for artifacts: sends the credential itself
	Store        *artifact.Store
	// Published returns the gitcache that published the heads of a source last, as the console has it in SQL, and its
	// epoch.
	Published func(source string) (owner string, epoch int64)
	// Unsigned accepts answers that do not say what they stand on, for one upgrade.
	Unsigned bool
	Log      *slog.Logger
}

// Edge asks gitcaches. Safe for concurrent use.
type Edge struct {
	cfg      Config
	fetching chan struct{} // capacity fetchesAtOnce

	mu      sync.Mutex // guards what follows
	members []coordination.Member
	asked   time.Time // also when there was no answer
	down    bool      // there was none
}

// New returns an edge; nothing is asked yet.
func New(cfg Config) *Edge {
	// A question that fits is asked by GET: without a body to wait for the answer comes a good deal earlier.
	cfg.Options = append(slices.Clone(cfg.Options), connect.WithHTTPGet(), connect.WithHTTPGetMaxURLSize(maxURL, true))
	return &Edge{cfg: cfg, fetching: make(chan struct{}, fetchesAtOnce)}
}

var errNoGitcache = errors.New("no gitcache is known: none has joined, and --gitcache-urls names none")

// origin is a gitcache that can be asked.
type origin struct {
	url     string
	replica string // its name; empty: only the configuration knows it, and it may be any of several
}

// calling returns a context whose calls are for this gitcache and no other one.
func (o origin) calling(ctx context.Context) context.Context {
	return identity.ForReplica(ctx, o.replica)
}

// origins returns the gitcaches, the owner of the source first if it is known: the one that published last, or if that
// is gone the one that coordination says holds the lease, which is a hint.
func (e *Edge) origins(ctx context.Context, source, sourceUID string) []origin {
	members, up := e.known(ctx)
	owner := ""
	if source != "" {
		owner, _ = e.cfg.Published(source)
	}
	lives := slices.ContainsFunc(members, func(m coordination.Member) bool { return m.ID == owner })
	if sourceUID != "" && up && !lives {
		owner, _ = e.cfg.Coordination.Holder(ctx, "source/"+sourceUID) // any gitcache will do
	}
	var all []origin
	for _, m := range members {
		if err := client.CheckPeer(m.URL); err != nil {
			e.cfg.Log.Warn("gitcache has an address that is not used", "gitcache", m.ID, "err", err)
			continue
		}
		if m.ID == owner {
			all = slices.Insert(all, 0, origin{m.URL, m.ID})
		} else {
			all = append(all, origin{m.URL, m.ID})
		}
	}
	for _, u := range e.cfg.Static {
		if !slices.ContainsFunc(all, func(o origin) bool { return o.url == u }) {
			all = append(all, origin{url: u})
		}
	}
	return all
}

// known returns the members of the group, from memory while that is fresh or there is nothing better,
// and whether coordination is up.
func (e *Edge) known(ctx context.Context) (members []coordination.Member, up bool) {
	e.mu.Lock()
	defer e.mu.Unlock() // one asks, for all
	if time.Since(e.asked) < membersTTL {
		return e.members, !e.down
	}
	now, err := e.cfg.Coordination.Members(ctx, group)
	if ctx.Err() != nil {
		return e.members, false
	}
	if err != nil && !e.down {
		e.cfg.Log.Warn("list gitcaches: going on with those known before", "err", err)
	}
	e.asked, e.down = time.Now(), err != nil
	if err == nil && len(now) > 0 {
		e.members = now // that there is none says a Redis that lost all, too, until they have joined again
	}
	return e.members, !e.down
}

// Resolve asks for folders of one source. Every want gets an answer: with an error where none can say.
func (e *Edge) Resolve(ctx context.Context, wants []plan.Want) []plan.Answer {
	answers := make(map[plan.Want]said, len(wants))
	for _, w := range wants {
		answers[w] = said{Answer: unavailable(w, errNoGitcache.Error())}
	}
	open := wants
	for _, from := range e.origins(ctx, wants[0].Source, wants[0].SourceUID) {
		open = e.ask(ctx, from, open, answers)
		if len(open) == 0 {
			break
		}
	}
	out := make([]plan.Answer, 0, len(wants))
	for _, w := range wants {
		out = append(out, answers[w].Answer)
	}
	return out
}

// said is an answer, and how much it helps a person.
type said struct {
	plan.Answer
	helps int
}

// Of several failures the one that helps most is told; of those that help as much, the first: the owner's.
const (
	behind = 1 + iota // a gitcache that does not own the source may know less than others
	silent            // a gitcache does not answer
	caused            // a gitcache says what went wrong
	final             // no other gitcache is asked
)

// ask asks one gitcache and returns what another one may know better.
func (e *Edge) ask(ctx context.Context, from origin, wants []plan.Want, answers map[plan.Want]said) (open []plan.Want) {
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	req := &artifactv1.ResolveRequest{}
	for _, w := range wants {
		req.Queries = append(req.Queries, &artifactv1.Query{
			Source: w.Source, Revision: w.Commit, Path: w.Path, Include: w.Include.Lines(), Ignore: w.Ignore.Lines(),
		})
	}
	resp, err := artifactv1connect.NewArtifactServiceClient(e.cfg.RPC, from.url, e.cfg.Options...).Resolve(from.calling(ctx), req)
	if err == nil && len(resp.GetResults()) != len(wants) {
		err = fmt.Errorf("got %d results for %d queries", len(resp.GetResults()), len(wants))
	}
	for i, w := range wants {
		a := said{unavailable(w, fmt.Sprintf("%s does not answer: %v", from.host(), err)), silent}
		if err == nil {
			a = e.judge(w, resp.GetResults()[i])
		}
		if a.helps > answers[w].helps {
			answers[w] = a
		}
		if a.helps != final {
			open = append(open, w)
		}
	}
	return open
}

func (e *Edge) judge(w plan.Want, r *artifactv1.Result) said {
	a := e.answer(w, r)
	switch {
	case a.Failure == nil || a.Failure.Kind != plan.Unavailable:
		return said{a, final}
	case r.GetError().GetReason() == artifactv1.ResolveError_REASON_INTERNAL && e.doubt(w, r) == "":
		return said{a, caused}
	}
	return said{a, behind}
}

func (o origin) host() string {
	if u, err := url.Parse(o.url); err == nil {
		return u.Host
	}
	return "a gitcache"
}

func unavailable(w plan.Want, text string) plan.Answer {
	return plan.Answer{Want: w, Failure: &plan.Failure{Kind: plan.Unavailable, Text: text}}
}

// doubt says why a result is not about what is published: a gitcache whose catalog has another source of that name, or
// an owner before the one that published last, answers nothing, good or bad.
func (e *Edge) doubt(w plan.Want, r *artifactv1.Result) string {
	_, published := e.cfg.Published(w.Source)
	unknown := r.GetError().GetReason() == artifactv1.ResolveError_REASON_UNKNOWN_SOURCE
	switch {
	case unknown, r.GetSourceUid() == "" && e.cfg.Unsigned:
	case r.GetSourceUid() != w.SourceUID:
		return fmt.Sprintf("the answer is about source %.40q with this name, want %.40q", r.GetSourceUid(), w.SourceUID)
	case r.GetEpoch() < published:
		return fmt.Sprintf("the answer is of epoch %d of the source, and epoch %d is published", r.GetEpoch(), published)
	}
	if r.GetSubmodules() != w.Submodules && !unknown {
		// An answer for good to another question: what it says would stay until the next commit.
		return "its catalog says otherwise of the source's submodules, or is behind"
	}
	if r.GetDependencies() != w.Dependencies && !unknown {
		return "its catalog says otherwise of the hosts that the source's charts may depend on, or is behind"
	}
	return ""
}

// answer reads a result. A digest is only taken if it is one.
func (e *Edge) answer(w plan.Want, r *artifactv1.Result) plan.Answer {
	if doubt := e.doubt(w, r); doubt != "" {
		return unavailable(w, doubt)
	}
	if e := r.GetError(); e != nil {
		return plan.Answer{Want: w, Failure: &plan.Failure{Kind: kind(e.GetReason()), Text: e.GetMessage()}}
	}
	a := r.GetResolved().GetArtifact()
	d, err := artifact.ParseDigest(a.GetDigest())
	if err != nil {
		return unavailable(w, err.Error())
	}
	if got := r.GetResolved().GetRevision().GetCommit(); got != w.Commit {
		return unavailable(w, fmt.Sprintf("the answer is about commit %.40q", got))
	}
	return plan.Answer{Want: w, Artifact: plan.Artifact{Digest: d, Size: a.GetSize(), Files: a.GetFiles()}}
}

func kind(r artifactv1.ResolveError_Reason) plan.Kind {
	switch r {
	case artifactv1.ResolveError_REASON_PATH_NOT_FOUND:
		return plan.NoFolder
	case artifactv1.ResolveError_REASON_REFUSED:
		return plan.Refused
	}
	// Its catalog may be behind ours, or its mirror: ask again.
	return plan.Unavailable
}

// Warm brings an artifact into the store. A store without space is no error: bytes are passed
// through then.
func (e *Edge) Warm(ctx context.Context, w plan.Want, d artifact.Digest) error {
	b, err := e.cfg.Store.Fill(ctx, d, func(ctx context.Context, d artifact.Digest) (io.ReadCloser, error) {
		return e.fetch(ctx, e.origins(ctx, w.Source, w.SourceUID), d)
	})
	if errors.Is(err, artifact.ErrNoSpace) {
		e.cfg.Log.Warn("no space for an artifact: its bytes will be passed through. Free the disk, or raise --cache-bytes",
			"digest", d, "err", err)
		return nil
	}
	if err != nil {
		return err
	}
	return b.Close()
}

// Fetch brings an artifact from whichever gitcache has it; it is an artifact.FetchFunc.
func (e *Edge) Fetch(ctx context.Context, d artifact.Digest) (io.ReadCloser, error) {
	return e.fetch(ctx, e.origins(ctx, "", ""), d)
}

func (e *Edge) fetch(ctx context.Context, origins []origin, d artifact.Digest) (r io.ReadCloser, err error) {
	select {
	case e.fetching <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() {
		if err != nil {
			<-e.fetching
		}
	}()
	last := errNoGitcache
	for i, from := range origins {
		begin := artifact.Begin
		if i == len(origins)-1 { // the last one may take its time
			begin = fetchPatiently
		}
		r, err := begin(from.calling(ctx), e.cfg.Bytes, from.url, d)
		if err == nil {
			return &fetch{ReadCloser: r, end: sync.OnceFunc(func() { <-e.fetching })}, nil
		}
		last = fmt.Errorf("%s: %w", from.host(), err)
	}
	if errors.Is(last, artifact.ErrNotFound) {
		// A service is meant to have it: a gitcache that has just started finds it yet.
		return nil, fmt.Errorf("no gitcache has the artifact yet (%s)", origins[len(origins)-1].host())
	}
	return nil, last
}

func fetchPatiently(ctx context.Context, hc *http.Client, url string, d artifact.Digest) (io.ReadCloser, error) {
	return artifact.Fetch(ctx, hc, url, d, 0)
}

// fetch is an artifact on its way here.
type fetch struct {
	io.ReadCloser
	end func()
}

func (f *fetch) Close() error {
	f.end()
	return f.ReadCloser.Close()
}
