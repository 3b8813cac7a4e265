package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"
)

// SSH is a Fetcher that has git-upload-pack run by ssh. Everything about a connection comes from the
// Remote: no agent, no configuration, no known hosts and no environment of this machine.
//
// Every call makes a connection of its own. With polls two minutes apart a kept one would be idle nearly
// always, and one per source too many for most hosts.
type SSH struct {
	limits    Limits
	addresses *Policy
	budget    *Budget
	keys      keyring
	versions  *versions
}

// NewSSH makes a fetcher.
func NewSSH(o Options) *SSH {
	if o.Budget == nil {
		o.Budget = NewBudget()
	}
	return &SSH{limits: o.Limits.withDefaults(), addresses: o.Addresses, budget: o.Budget, keys: keyring{dir: o.Dir}, versions: newVersions()}
}

// List asks where refs point.
func (s *SSH) List(ctx context.Context, r Remote, names Names) (*Listing, error) {
	leave, err := s.budget.enterHost(ctx, r.doorOf(r.URL), lists)
	if err != nil {
		return nil, err
	}
	defer leave()
	limited, cancel := context.WithTimeoutCause(ctx, s.limits.ListTime, errDeadline)
	defer cancel()
	if s.versions.failsTwo(r) {
		return s.list(limited, r, names, "")
	}
	l, err := s.list(limited, r, names, askVersion2)
	if _, no := errors.AsType[failed2](err); !no {
		return l, err
	}
	old, failed := s.list(limited, r, names, "")
	if failed != nil {
		return nil, err
	}
	s.versions.noteFails(r)
	return old, nil
}

// failed2 is an answer in version 2 that can't be used.
type failed2 struct{ error }

func (f failed2) Unwrap() error { return f.error }

func (s *SSH) list(ctx context.Context, r Remote, names Names, version string) (*Listing, error) {
	c, err := s.openCommand(ctx, r, version)
	if err != nil {
		return nil, s.listError(ctx, r, err)
	}
	defer c.Close()
	body := s.limits.capList(c)
	lines := newLines(body)
	l, err := decodeAdvertised(lines, names)
	if err == nil && l.version2 && version == "" {
		err = onlyVersion2
	}
	if err != nil {
		return nil, s.listError(ctx, r, c.explainError(ctx, err))
	}
	if l.version2 {
		if err := c.listRefs(lines, l, names); err != nil {
			if err = c.explainError(ctx, err); ctx.Err() == nil && isContent(err) {
				err = failed2{err}
			}
			return nil, s.listError(ctx, r, err)
		}
	}
	l.base, l.Bytes = r.URL, body.bytesTaken()
	if !l.others {
		c.leaveSession()
	}
	return l, nil
}

// listRefs asks for the refs of a listing in version 2.
func (c *sshCommand) listRefs(lines lines, l *Listing, names Names) error {
	if err := encodeListRefs(c.in, names); err != nil {
		return err
	}
	if err := lines.listRefs(l, names); err != nil || len(l.Refs) > 0 || !l.partial {
		return err
	}
	// Is nothing there, or none of the names?
	if err := encodeListRefs(c.in, Names{}); err != nil {
		return err
	}
	any, err := lines.anyRef()
	l.others = any
	return err
}

func (s *SSH) listError(ctx context.Context, r Remote, err error) error {
	if _, known := errors.AsType[*Error](err); known || ctx.Err() == nil && isContent(err) {
		return brokenError(r, "list of refs", err)
	}
	return transportError(ctx, r.URL.Host, s.limits.ListTime, err)
}

// Fetch brings wants and all that they reach, in one session. In version 0 the list of refs comes first again, as
// the protocol has it.
func (s *SSH) Fetch(ctx context.Context, r Remote, l *Listing, wants []plumbing.Hash, into Target) (int64, error) {
	leave, err := s.budget.enterHost(ctx, r.doorOf(r.URL), packs)
	if err != nil {
		return 0, err
	}
	defer leave()
	version := ""
	if l.version2 {
		version = askVersion2
	}
	n, err := transferPack(ctx, s.limits, r, l, wants, s.budget.unloadTarget(r.doorOf(r.URL), into, leave), func(ctx context.Context, dog *watchdog, ask packAsk) (io.ReadCloser, error) {
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
	if l.version2 && worthVersion0(err) {
		s.versions.noteFetchFails(r) // the next poll lists and fetches in version 0
	}
	return n, withoutNoPack(err)
}

func (c *sshCommand) askPack(limits Limits, dog *watchdog, l *Listing, ask packAsk) error {
	dog.watch(c)
	now, err := decodeAdvertised(newLines(limits.capList(dog)), Names{})
	if err != nil {
		return err
	}
	if now.version2 != l.version2 { // one of many machines behind a name
		return errors.New("it answers in another version of Git's protocol than before")
	}
	if err := ask.encode(c.in); err != nil || !l.version2 {
		return err
	}
	// No further command comes: the host ends the session when it has answered.
	if _, err := c.in.Write(pktline.FlushPkt); err != nil {
		return fmt.Errorf("send request: %w", err)
	}
	return nil
}

// leaveSession ends a session in which nothing is wanted the way the protocol has it, so that the host's log
// has no broken connection in it.
func (c *sshCommand) leaveSession() {
	if _, err := c.in.Write(pktline.FlushPkt); err != nil {
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
		return "", refusalError("the url's path can't be given to a shell. Write it as ssh://git@host/path")
	}
	return uploadPack + " " + quoteWord(path), nil
}

// quoteWord makes one word for any shell of it: some expand an exclamation mark even between quotes.
func quoteWord(s string) string {
	return "'" + strings.NewReplacer(`'`, `'\''`, `!`, `'\!'`).Replace(s) + "'"
}

// explainError prefers what the host says in words to what that did to the protocol.
func (c *sshCommand) explainError(ctx context.Context, err error) error {
	_, known := errors.AsType[*Error](err)
	_, no := errors.AsType[unfit](err)
	if known || no || ctx.Err() != nil {
		return err
	}
	c.waitForWords()
	if said := c.stderr.saidLines(); said != "" {
		return c.saidError(said)
	}
	if !c.answered {
		return &Error{Kind: KindServer, cause: err, Message: fmt.Sprintf(
			"%s ended the connection without a word. Fairlead asks again later; if that stays, ask the host's operator", c.remote.URL.Host)}
	}
	return unreadable{err}
}
