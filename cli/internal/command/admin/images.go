package admin

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/mirror"
)

// maxPassword bounds what is read as a password, in bytes: tokens of registries have some thousands at most.
const maxPassword = 64 << 10

func imagesOfReleases(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "images",
		Short: "Bring images and charts of a release into your registry",
		Args:  app.OnlyBelow,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(imagesMirror(a))
	return cmd
}

func imagesMirror(a *app.App) *cobra.Command {
	var o mirror.Options
	var caFile string
	var passwordStdin, replace bool
	cmd := &cobra.Command{
		Use:   "mirror BUNDLE REGISTRY",
		Short: "Push the images and charts of a release's bundle to a registry",
		Long: `Push the images and charts of a release's bundle to a registry, with the list of modules of each image. Only the bundle is read, so that this
works where nothing but the registry is reached. Images that the registry has already are not pushed again: repeat a push
that was cut off.

The account is that of "docker login" or "helm registry login", or --username with --password-stdin. A tag that has other content is
refused, since a version does not change; --replace overwrites it.

Verify the bundle before: docs/operate/release.md has the commands.`,
		Example: "  fairlead images mirror fairlead-bundle-v1.2.3.tar registry.example.com/fairlead\n" +
			"  fairlead images mirror bundle.tar registry.example.com --username ci --password-stdin < password",
		Args: app.WantArgs(2, 2),
	}
	f := cmd.Flags()
	f.StringVar(&caFile, "ca-file", "", "PEM `file` with the registry's authority, if it is one of your own")
	f.StringVar(&o.Username, "username", "", "account of the registry; default: the kept one")
	f.BoolVar(&passwordStdin, "password-stdin", false, "read the account's password or token from stdin")
	f.BoolVar(&replace, "replace", false, "overwrite tags that have other content")
	cmd.MarkFlagsRequiredTogether("username", "password-stdin")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if caFile != "" {
			var err error
			if o.CA, err = os.ReadFile(caFile); err != nil {
				return fmt.Errorf("--ca-file: %w", err)
			}
		}
		if passwordStdin {
			text, err := io.ReadAll(io.LimitReader(a.Stdin, maxPassword))
			if err != nil {
				return fmt.Errorf("read the password: %w", err)
			}
			if o.Password = strings.TrimRight(string(text), "\r\n"); o.Password == "" {
				return errors.New("--password-stdin: stdin has no password")
			}
		}
		registry, err := mirror.Open(args[1], o)
		if err != nil {
			return err
		}
		return mirrorBundle(cmd.Context(), a, args[0], registry, replace)
	}
	return cmd
}

// mirrorBundle pushes all of a bundle, and says of each what was done. The first failure ends it: the next one would be
// the same.
func mirrorBundle(ctx context.Context, a *app.App, path string, registry *mirror.Registry, replace bool) error {
	bundle, err := mirror.Read(ctx, path)
	if err != nil {
		return err
	}
	for i, name := range bundle.Names {
		a.Notef("%d of %d: %s\n", i+1, len(bundle.Names), name)
		r, err := registry.PushImage(ctx, bundle, name, replace)
		if err != nil {
			return explainRegistry(err)
		}
		did := fmt.Sprintf("pushed %d parts, %.1f MB", r.Pushed, float64(r.Bytes)/1e6)
		if r.There {
			did = "is there"
		}
		if err := a.Printf("%s@%s: %s\n", r.Reference, r.Digest, did); err != nil {
			return err
		}
	}
	return nil
}

// explainRegistry adds what to do about an error that people meet.
func explainRegistry(err error) error {
	if _, unknown := errors.AsType[x509.UnknownAuthorityError](err); unknown {
		return fmt.Errorf("%w: give the registry's authority with --ca-file", err)
	}
	if said, ok := errors.AsType[*errcode.ErrorResponse](err); ok &&
		(said.StatusCode == http.StatusUnauthorized || said.StatusCode == http.StatusForbidden) || errors.Is(err, auth.ErrBasicCredentialNotFound) {
		return fmt.Errorf("%w: the registry refuses the account: log in with `docker login`, or give --username and --password-stdin of one that may push", err)
	}
	return err
}
