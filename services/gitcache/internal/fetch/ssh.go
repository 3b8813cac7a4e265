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
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
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
}

// NewSSH makes a fetcher.
func NewSSH(o Options) *SSH {
	if o.Budget == nil {
		o.Budget = NewBudget()
	}
	return &SSH{limits: o.Limits.withDefaults(), addresses: o.Addresses, budget: o.Budget, keys: keyring{dir: o.Dir}}
}

// List asks where the refs point.
func (s *SSH) List(ctx context.Context, r Remote) (*Listing, error) {
	leave, err := s.budget.enter(ctx, r.door(r.URL), lists)
	if err != nil {
		return nil, err
	}
	defer leave()
	limited, cancel := context.WithTimeoutCause(ctx, s.limits.ListTime, errDeadline)
	defer cancel()
	c, err := s.open(limited, r)
	if err != nil {
		return nil, s.listError(limited, r, err)
	}
	defer c.Close()
	l, err := decodeListing(s.limits.list(c))
	if err != nil {
		return nil, s.listError(limited, r, c.explain(limited, err))
	}
	l.base = r.URL
	c.leave()
	return l, nil
}

func (s *SSH) listError(ctx context.Context, r Remote, err error) error {
	if _, known := errors.AsType[*Error](err); known || ctx.Err() == nil && isContent(err) {
		return broken(r, "list of refs", err)
	}
	return transportError(ctx, r.URL.Host, s.limits.ListTime, err)
}

// Fetch brings wants and all that they reach, in one session: the list of refs comes first again, as the
// protocol has it.
func (s *SSH) Fetch(ctx context.Context, r Remote, l *Listing, wants []plumbing.Hash, into Target) (int64, error) {
	leave, err := s.budget.enter(ctx, r.door(r.URL), packs)
	if err != nil {
		return 0, err
	}
	defer leave()
	return transfer(ctx, s.limits, r, l, wants, s.budget.unload(r.door(r.URL), into, leave), func(ctx context.Context, dog *watchdog, ask *packp.UploadPackRequest) (io.ReadCloser, error) {
		c, err := s.open(ctx, r)
		if err != nil {
			return nil, err
		}
		if err := c.ask(s.limits, dog, ask); err != nil {
			err = c.explain(ctx, err)
			c.Close()
			return nil, err
		}
		return c, nil
	})
}

func (c *sshCommand) ask(limits Limits, dog *watchdog, ask *packp.UploadPackRequest) error {
	dog.r = c
	if _, err := decodeListing(limits.list(dog)); err != nil {
		return err
	}
	return encodeAsk(c.in, ask)
}

// leave ends a session in which nothing is wanted the way the protocol has it, so that the host's log
// has no broken connection in it.
func (c *sshCommand) leave() {
	if _, err := c.in.Write(pktline.FlushPkt); err != nil {
		return
	}
	_ = c.in.Close()
	c.wait()
}

// uploadPackCommand is what the host's shell is told.
func uploadPackCommand(u *url.URL) (string, error) {
	path := u.Path
	if strings.HasPrefix(path, "/~") {
		path = path[1:] // as git does: a user's home
	}
	if path == "" || path[0] == '-' || strings.ContainsFunc(path, func(c rune) bool { return c < ' ' || c == 0x7f }) {
		return "", refuse("the url's path can't be given to a shell. Write it as ssh://git@host/path")
	}
	return uploadPack + " " + quote(path), nil
}

// quote makes one word for any shell of it: some expand an exclamation mark even between quotes.
func quote(s string) string {
	return "'" + strings.NewReplacer(`'`, `'\''`, `!`, `'\!'`).Replace(s) + "'"
}

// explain prefers what the host says in words to what that did to the protocol.
func (c *sshCommand) explain(ctx context.Context, err error) error {
	_, known := errors.AsType[*Error](err)
	_, no := errors.AsType[unfit](err)
	if known || no || ctx.Err() != nil {
		return err
	}
	c.wait()
	if said := c.stderr.words(); said != "" {
		return c.spoken(said)
	}
	if !c.answered {
		return &Error{Kind: KindServer, cause: err, Message: fmt.Sprintf(
			"%s ended the connection without a word. Fairlead asks again later; if that stays, ask the host's operator", c.remote.URL.Host)}
	}
	return unreadable{err}
}
