// Package gitssh fetches from Git hosts by ssh: the connection, the login, the keys of hosts, and what hosts say.
package gitssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"fairlead.dev/services/gitcache/internal/fetch/gitwire"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/upstream"
)

// SSH is a Fetcher that has git-upload-pack run by ssh. Everything about a connection comes from the
// Remote: no agent, no configuration, no known hosts and no environment of this machine.
//
// Every call makes a connection of its own. With polls two minutes apart a kept one would be idle nearly
// always, and one per source too many for most hosts.
type SSH struct {
	limits    upstream.Limits
	addresses *upstream.Policy
	budget    *upstream.Budget
	keys      keyring
	versions  *gitwire.Versions
}

// New makes a fetcher.
func New(o upstream.Options) *SSH {
	if o.Budget == nil {
		o.Budget = upstream.NewBudget()
	}
	return &SSH{limits: o.Limits.WithDefaults(), addresses: o.Addresses, budget: o.Budget, keys: keyring{dir: o.Dir}, versions: gitwire.NewVersions()}
}

// List asks where refs point.
func (s *SSH) List(ctx context.Context, r upstream.Remote, names gitwire.Names) (*gitwire.Listing, error) {
	leave, err := s.budget.EnterHost(ctx, r.DoorOf(r.URL), upstream.Lists)
	if err != nil {
		return nil, err
	}
	defer leave()
	limited, cancel := context.WithTimeoutCause(ctx, s.limits.ListTime, upstream.ErrDeadline)
	defer cancel()
	if s.versions.FailsTwo(r) {
		return s.list(limited, r, names, "")
	}
	l, err := s.list(limited, r, names, gitwire.AskVersion2)
	if _, no := errors.AsType[failed2](err); !no {
		return l, err
	}
	old, failed := s.list(limited, r, names, "")
	if failed != nil {
		return nil, err
	}
	s.versions.NoteFails(r)
	return old, nil
}

// failed2 is an answer in version 2 that can't be used.
type failed2 struct{ error }

func (f failed2) Unwrap() error { return f.error }

func (s *SSH) list(
	ctx context.Context, r upstream.Remote, names gitwire.Names, version string,
) (*gitwire.Listing, error) {
	c, err := s.openCommand(ctx, r, version)
	if err != nil {
		return nil, s.listError(ctx, r, err)
	}
	defer c.Close()
	body := s.limits.CapList(c)
	lines := gitwire.NewLines(body)
	l, err := gitwire.DecodeAdvertised(lines, names)
	if err == nil && l.Version2 && version == "" {
		err = gitwire.OnlyVersion2
	}
	if err != nil {
		return nil, s.listError(ctx, r, c.explainError(ctx, err))
	}
	if l.Version2 {
		if err := c.listRefs(lines, l, names); err != nil {
			if err = c.explainError(ctx, err); ctx.Err() == nil && isContent(err) {
				err = failed2{err}
			}
			return nil, s.listError(ctx, r, err)
		}
	}
	l.Base, l.Bytes = r.URL, body.BytesTaken()
	if !l.Others {
		c.leaveSession()
	}
	return l, nil
}

// ListRefs asks for the refs of a listing in version 2.
func (c *sshCommand) listRefs(lines gitwire.Lines, l *gitwire.Listing, names gitwire.Names) error {
	if err := gitwire.EncodeListRefs(c.in, names); err != nil {
		return err
	}
	if err := lines.ListRefs(l, names); err != nil || len(l.Refs) > 0 || !l.Partial {
		return err
	}
	// Is nothing there, or none of the names?
	if err := gitwire.EncodeListRefs(c.in, gitwire.Names{}); err != nil {
		return err
	}
	any, err := lines.AnyRef()
	l.Others = any
	return err
}

func (s *SSH) listError(ctx context.Context, r upstream.Remote, err error) error {
	if _, known := errors.AsType[*upstream.Error](err); known || ctx.Err() == nil && isContent(err) {
		return gitwire.BrokenError(r, "list of refs", err)
	}
	return upstream.TransportError(ctx, r.URL.Host, s.limits.ListTime, err)
}

// Fetch brings wants and all that they reach, in one session. In version 0 the list of refs comes first again, as
// the protocol has it.
func (s *SSH) Fetch(
	ctx context.Context, r upstream.Remote, l *gitwire.Listing, wants []git.Hash, into upstream.Target,
) (int64, error) {
	leave, err := s.budget.EnterHost(ctx, r.DoorOf(r.URL), upstream.Packs)
	if err != nil {
		return 0, err
	}
	defer leave()
	version := ""
	if l.Version2 {
		version = gitwire.AskVersion2
	}
	n, err := gitwire.TransferPack(ctx, s.limits, r, l, wants, s.budget.UnloadTarget(r.DoorOf(r.URL), into, leave), func(ctx context.Context, dog *upstream.Watchdog, ask gitwire.Ask) (io.ReadCloser, error) {
		c, err := s.openCommand(ctx, r, version)
		if err != nil {
			return nil, err
		}
		if err := c.askPack(s.limits, dog, l, ask); err != nil {
			err = c.explainError(ctx, err)
			c.Close()
			return nil, err
		}
		return c, nil
	})
	if l.Version2 && gitwire.WorthVersion0(err) {
		s.versions.NoteFetchFails(r) // the next poll lists and fetches in version 0
	}
	return n, gitwire.WithoutNoPack(err)
}

func (c *sshCommand) askPack(
	limits upstream.Limits, dog *upstream.Watchdog, l *gitwire.Listing, ask gitwire.Ask,
) error {
	dog.Watch(c)
	now, err := gitwire.DecodeAdvertised(gitwire.NewLines(limits.CapList(dog)), gitwire.Names{})
	if err != nil {
		return err
	}
	if now.Version2 != l.Version2 { // one of many machines behind a name
		return errors.New("it answers in another version of Git's protocol than before")
	}
	if err := ask.Encode(c.in); err != nil || !l.Version2 {
		return err
	}
	// No further command comes: the host ends the session when it has answered.
	if _, err := io.WriteString(c.in, gitwire.Flush); err != nil {
		return fmt.Errorf("send request: %w", err)
	}
	return nil
}

// leaveSession ends a session in which nothing is wanted the way the protocol has it, so that the host's log
// has no broken connection in it.
func (c *sshCommand) leaveSession() {
	if _, err := io.WriteString(c.in, gitwire.Flush); err != nil {
		return
	}
	_ = c.in.Close()
	c.waitForWords()
}

// uploadPackCommand is what the host's shell is told.
func uploadPackCommand(u *url.URL) (string, error) {
	path := u.Path
	if strings.HasPrefix(path, "/~") {
		path = path[1:] // as git does: a user's home
	}
	if path == "" || path[0] == '-' || strings.ContainsFunc(path, func(c rune) bool { return c < ' ' || c == 0x7f }) {
		return "", upstream.Refusal("the url's path can't be given to a shell. Write it as ssh://git@host/path")
	}
	return gitwire.UploadPack + " " + quoteWord(path), nil
}

// quoteWord makes one word for any shell of it: some expand an exclamation mark even between quotes.
func quoteWord(s string) string {
	return "'" + strings.NewReplacer(`'`, `'\''`, `!`, `'\!'`).Replace(s) + "'"
}

// explainError prefers what the host says in words to what that did to the protocol.
func (c *sshCommand) explainError(ctx context.Context, err error) error {
	_, known := errors.AsType[*upstream.Error](err)
	_, no := errors.AsType[gitwire.Unfit](err)
	if known || no || ctx.Err() != nil {
		return err
	}
	c.waitForWords()
	if said := c.stderr.Lines(); said != "" {
		return c.saidError(said)
	}
	if !c.answered {
		return &upstream.Error{Kind: upstream.KindServer, Cause: err, Message: fmt.Sprintf(
			"%s ended the connection without a word. Fairlead asks again later; if that stays, ask the host's operator", c.remote.URL.Host)}
	}
	return unreadable{err}
}
