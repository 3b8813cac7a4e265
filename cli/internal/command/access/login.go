package access

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/contexts"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/input"
	"fairlead.dev/cli/internal/table"
)

// linkPath is what a login link has behind the URL of the hub.
const linkPath = "/v1/login/once#"

// loginTimeout is how long a person may take at the identity provider.
const loginTimeout = 10 * time.Minute

// maxSecretBytes bounds a file that should hold one secret.
const maxSecretBytes = 4096

func loginCommand(a *app.App) *cobra.Command {
	var l hubclient.Login
	var secretFile, tokenFile, caFile string
	cmd := &cobra.Command{
		Use:   "login URL|LINK [--hub-secret-file FILE | --token-file FILE]",
		Short: "Log in to a hub",
		Long: `Log in to a hub, and keep the token in a context that becomes the current one: at the hub's identity provider, in a
browser on any device; with a login link, which works once; as an administrator with the hub's secret; or with a token
of "fairlead admin token" or "fairlead token create".

The token is good for 12 hours and is renewed by use; a login at an identity provider ends after 12 hours all the same.
The token is kept in the keyring of your desktop; where there is none, in the file of contexts: fairlead/config.yaml in
$XDG_CONFIG_HOME or ~/.config, or $FAIRLEAD_CONFIG, which is always used if it is set. Only you can read it.
"fairlead whoami" says who you are, and "fairlead logout" ends the login.

In CI no login is needed: with a token in $FAIRLEAD_TOKEN and the hub's URL in --server or $FAIRLEAD_SERVER (and, for a hub with a certificate
of its own, the CA in the file $FAIRLEAD_CA_FILE) every command uses these, unless --context names a login, and nothing is kept.`,
		Example: "  fairlead login https://fairlead.example.com\n  fairlead login 'https://fairlead.example.com/v1/login/once#...'\n  fairlead login https://fairlead.example.com --hub-secret-file hub-secret",
		Args:    app.WantArgs(1, 1),
	}
	cmd.Flags().StringVar(&secretFile, "hub-secret-file", "", "file with the hub's secret, or - for stdin")
	cmd.Flags().StringVar(&tokenFile, "token-file", "", "file with a token that an administrator made, or - for stdin")
	cmd.Flags().StringVar(&caFile, "ca-file", "",
		"PEM file with the CA certificate of the hub, if it is not of a public authority")
	cmd.Flags().StringVar(&l.User, "user", "",
		"with --hub-secret-file: name that the audit trail shall show; default: $USER, or admin. With --token-file: the owner that the token must have")
	cmd.Flags().BoolVar(&l.Program, "program", false,
		"with --hub-secret-file: a program logs in, such as a test of the installation, and no person: the link for the first login stays good")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if secretFile != "" && tokenFile != "" {
			return app.UsageError(cmd)
		}
		if l.Program && secretFile == "" {
			return errors.New("--program goes with --hub-secret-file")
		}
		l.URL, l.Context = args[0], a.Context
		if at, code, ok := strings.Cut(args[0], linkPath); ok && code != "" {
			l.URL, l.Link = at, code
		}
		l.Tell = func(url, code string) { a.Notef("Open %s and enter the code %s\n", url, code) }
		if l.User != "" && secretFile == "" && tokenFile == "" {
			return errors.New("--user goes with --hub-secret-file: a link and the identity provider say themselves who you are")
		}
		if l.User == "" && secretFile != "" {
			l.User = a.DefaultUser()
		}
		var err error
		switch {
		case tokenFile != "":
			if l.Token, err = readSecretFile(tokenFile, a.Stdin); err == nil {
				err = app.CheckToken(tokenFile, l.Token)
			}
		case secretFile != "":
			l.HubSecret, err = readSecret(a, secretFile)
		}
		if err != nil {
			return err
		}
		if caFile != "" {
			pem, err := os.ReadFile(caFile)
			if err != nil {
				return err
			}
			l.CA = string(pem)
		}
		return doLogin(cmd.Context(), a, l)
	}
	return cmd
}

func doLogin(ctx context.Context, a *app.App, l hubclient.Login) error {
	store, err := a.OpenStore()
	if err != nil {
		return err
	}
	if _, _, err := store.List(); err != nil { // a link works once: there has to be a place for its token
		return err
	}
	limit := hubclient.CallTimeout
	if l.Link == "" && l.Token == "" && l.HubSecret == "" {
		limit = loginTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	c, err := l.Do(ctx)
	if err != nil {
		return err
	}
	if err := saveContext(a, store, c); err != nil {
		return err
	}
	return a.Printf("logged in to %s as %s until %s; context %q is the current one\n", c.URL, c.User,
		c.Expires.Local().Format(time.DateTime), c.Name)
}

// saveContext puts the token into the keyring, or else into the file. A person who names a file wants all of it there.
func saveContext(a *app.App, store *contexts.Store, c contexts.Context) error {
	if a.Getenv("FAIRLEAD_CONFIG") == "" {
		c.Keyring = true
		err := store.Put(c)
		if err == nil {
			a.Notef("the token is in the keyring of this desktop\n")
			return nil
		}
		a.Notef("no keyring: %v\n", err)
		c.Keyring = false
	}
	if err := store.Put(c); err != nil {
		return err
	}
	a.Notef("the token is in %s, which only you can read\n", store.Path())
	return nil
}

// readSecret reads a file with one secret, as editors and echo leave it: with an end of line.
func readSecret(a *app.App, name string) (string, error) {
	secret, err := readSecretFile(name, a.Stdin)
	if err != nil {
		return "", fmt.Errorf("hub secret: %w", err)
	}
	return secret, nil
}

func readSecretFile(name string, stdin io.Reader) (string, error) {
	in := stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return "", err
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, maxSecretBytes+1))
	if err != nil {
		return "", err
	}
	if len(data) > maxSecretBytes {
		return "", fmt.Errorf("%s is too long to be a secret", input.DisplayName(name))
	}
	secret := trimLineEnd(string(data))
	if secret == "" {
		return "", fmt.Errorf("%s is empty", input.DisplayName(name))
	}
	return secret, nil
}

func trimLineEnd(s string) string {
	for len(s) > 0 && (s[len(s)-1] == '\n' || s[len(s)-1] == '\r') {
		s = s[:len(s)-1]
	}
	return s
}

func contextsCommand(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "context",
		Short: "List the hubs that you are logged in to, or choose one",
		Args:  app.OnlyBelow,
		RunE: func(*cobra.Command, []string) error {
			store, err := a.OpenStore()
			if err != nil {
				return err
			}
			return listContexts(a, store)
		},
	}
	cmd.AddCommand(&cobra.Command{
		Use:   "use NAME",
		Short: "Choose the context that commands use from now on",
		Args:  app.WantArgs(1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			store, err := a.OpenStore()
			if err != nil {
				return err
			}
			if err := store.Use(args[0]); err != nil {
				return err
			}
			return a.Printf("context %q is the current one\n", args[0])
		},
	})
	return cmd
}

func listContexts(a *app.App, store *contexts.Store) error {
	all, current, err := store.List()
	if err != nil {
		return err
	}
	if len(all) == 0 {
		_, err := store.Get("") // Says how to get one.
		return err
	}
	t := table.New("CURRENT", "NAME", "URL", "USER", "TOKEN")
	for _, c := range all {
		mark, token := "", "expired"
		if c.Name == current {
			mark = "*"
		}
		if left := c.Expires.Sub(a.Now()); left > 0 {
			token = fmt.Sprintf("valid for %s", table.FormatAge(c.Expires, a.Now()))
		}
		t.AddRow(mark, c.Name, c.URL, c.User, token)
	}
	return a.WriteTable(t)
}
