package access

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"html"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/resource"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
)

func openCommand(a *app.App) *cobra.Command {
	var only bool
	cmd := &cobra.Command{
		Use:   "open [KIND NAME]",
		Short: "Open the hub's pages in a browser",
		Long: `Open the hub's pages in a browser: the fleet, or the page of one resource.

The browser is the one that the environment variable BROWSER names, or else the system's. A browser that is not logged in asks for a login
and then shows the page: for an administrator of a hub without an identity provider, with one click, by a link that works once and within a
minute. The browser gets that link in a temporary file that only you can read, for the command lines of programs can be read by others; a
browser that may not read temporary files needs the address of --print. With --print the address has no such link.`,
		Example: "  fairlead open\n  fairlead open service shop\n  fairlead open cluster edge-1 --print",
	}
	cmd.Flags().BoolVar(&only, "print", false, "print the address instead of opening it")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) != 0 && len(args) != 2 {
			return app.UsageError(cmd)
		}
		path := "/"
		if len(args) == 2 {
			k, err := resource.FindKind(args[0])
			if err != nil {
				return err
			}
			path = "/" + k.Singular() + "/" + url.PathEscape(args[1])
		}
		return a.HubCommand(func(ctx context.Context, h *hubclient.Hub, _ []string) error {
			options := loginOptions(ctx, h)
			pages := cmp.Or(options.GetPagesUrl(), h.Context.URL) // of a hub that does not say: that of its console
			address := pages + path
			if only {
				return a.Printf("%s\n", address)
			}
			link := ""
			if options != nil && options.GetOidc() == nil {
				link = loginLink(ctx, h, pages, path)
			}
			if err := openPage(ctx, a, address, link); err != nil {
				return fmt.Errorf("%w: open %s yourself%s", err, address, loginHint(h, options))
			}
			return nil
		})(cmd, nil)
	}
	return cmd
}

// loginHint says how a browser is logged in at a hub without an identity provider, to which it would be sent.
func loginHint(h *hubclient.Hub, options *consolev1.GetLoginOptionsResponse) string {
	if options == nil || options.GetOidc() != nil {
		return ""
	}
	return ". A browser is logged in there by a link, which an administrator makes: `fairlead admin login-link " +
		cmp.Or(h.Context.User, "USER") + "`"
}

// openTimeout bounds the wait for a login link: without one the page asks for a login.
const openTimeout = 5 * time.Second

// openLifetime is how long the link of an opened page is good: a browser starts in less.
const openLifetime = time.Minute

// loginOptions is how people log in, or nil if the hub does not say.
func loginOptions(ctx context.Context, h *hubclient.Hub) *consolev1.GetLoginOptionsResponse {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	options, err := h.Logins.GetLoginOptions(ctx, &consolev1.GetLoginOptionsRequest{})
	if err != nil {
		return nil // the page says what is wrong
	}
	return options
}

// loginLink is a login link of the caller that leads to a page, or empty if the hub gives none: administrators make
// them. Where there is an identity provider the browser logs in by itself.
func loginLink(ctx context.Context, h *hubclient.Hub, pages, path string) string {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	caller, err := h.Access.GetCaller(ctx, &consolev1.GetCallerRequest{})
	user, isUser := strings.CutPrefix(caller.GetSubject(), "user:")
	if err != nil || !isUser || !caller.GetAdministrator() {
		return ""
	}
	made, err := h.Logins.CreateLoginLink(ctx, &consolev1.CreateLoginLinkRequest{
		User: user, Groups: caller.GetGroups(),
		Lifetime: durationpb.New(openLifetime),
	})
	if err != nil {
		return "" // of a token that was handed on
	}
	_, code, _ := strings.Cut(made.GetLink(), linkPath)
	return pages + strings.TrimSuffix(linkPath, "#") + "?to=" + url.QueryEscape(path) + "#" + code
}

// openPage opens an address in the person's browser, or a login link if there is one.
func openPage(ctx context.Context, a *app.App, address, link string) error {
	removePages(time.Now().Add(-openLifetime))
	if link == "" {
		return openBrowser(ctx, a, address)
	}
	page, err := writePage(link)
	if err != nil {
		return err
	}
	if err := openBrowser(ctx, a, page); err != nil {
		return errors.Join(err, os.RemoveAll(filepath.Dir(page)))
	}
	return nil
}

// pageFolder is the pattern of the temporary folders of pages.
const pageFolder = "fairlead-open-*"

// writePage writes a page that leads to a link, into a folder that only the person can read, and returns its path. The
// page stays for the browser, which may start slowly, until a later command removes it: the link is good for once and
// for openLifetime.
func writePage(link string) (string, error) {
	folder, err := os.MkdirTemp("", pageFolder)
	if err != nil {
		return "", fmt.Errorf("make a folder for the login link: %w", err)
	}
	page := filepath.Join(folder, "login.html")
	text := `<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer"><title>Fairlead</title>` +
		`<meta http-equiv="refresh" content="0; url=` + html.EscapeString(link) + `">` + "\n"
	if err := os.WriteFile(page, []byte(text), 0o600); err != nil {
		return "", errors.Join(fmt.Errorf("write the login link: %w", err), os.RemoveAll(folder))
	}
	return page, nil
}

// removePages removes the pages of commands before a time. A page that cannot be removed, such as another user's,
// stays.
func removePages(before time.Time) {
	folders, _ := filepath.Glob(filepath.Join(os.TempDir(), pageFolder)) // the pattern is good
	for _, folder := range folders {
		if info, err := os.Lstat(folder); err == nil && info.IsDir() && info.ModTime().Before(before) {
			_ = os.RemoveAll(folder)
		}
	}
}

// openBrowser opens an address in the person's browser.
func openBrowser(ctx context.Context, a *app.App, address string) error {
	program := "xdg-open"
	switch browser := strings.TrimSpace(a.Getenv("BROWSER")); {
	case browser != "":
		program = browser
	case runtime.GOOS == "darwin":
		program = "open"
	case runtime.GOOS == "windows":
		program = "rundll32 url.dll,FileProtocolHandler"
	}
	cmd := app.ChosenProgram(ctx, program, address)
	cmd.Stdout, cmd.Stderr = a.Stdout, a.Stderr
	err := cmd.Run()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return fmt.Errorf("there is no browser here (%s)", program)
	case err != nil:
		return fmt.Errorf("%s opened no browser (%w)", program, err)
	}
	return nil
}
