package apply

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/resource"
	"fairlead.dev/platform/catalogyaml"
	"fairlead.dev/platform/flags"
)

// editing is how a person changes a resource in an editor.
type editing struct {
	app         *app.App
	hub         *hubclient.Hub
	yes, dryRun bool
}

func editCommand(a *app.App) *cobra.Command {
	e := editing{app: a}
	cmd := &cobra.Command{
		Use:   "edit KIND NAME",
		Short: "Change a resource in an editor",
		Long: `Change a resource in an editor: $FAIRLEAD_EDITOR, $KUBE_EDITOR, $VISUAL, $EDITOR, or vi. The command shows the
difference and asks before it writes. If somebody else has changed the resource since, nothing is written. A text with a
mistake stays in a file, whose name the command prints.

Change a resource that is kept in Git there: the next apply of its file undoes an edit.`,
		Example: "  fairlead edit service shop\n  EDITOR=\"code --wait\" fairlead edit service/shop --dry-run",
		Args:    app.WantArgs(2, 2),
	}
	cmd.Flags().BoolVar(&e.dryRun, "dry-run", false, "show what would change, and write nothing")
	cmd.Flags().BoolVarP(&e.yes, "yes", "y", false, "go on without asking")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		k, err := resource.FindKind(args[0])
		if err != nil {
			return err
		}
		if k.ID == catalogyaml.Secret {
			return errors.New("the values of secrets are never read back, so there is nothing to edit: write all of it with `fairlead apply -f FILE`")
		}
		if e.chosenEditor() == "" && !app.IsTerminal(a.Stdin) {
			return fmt.Errorf("there is no terminal here, and none of FAIRLEAD_EDITOR, KUBE_EDITOR, VISUAL and EDITOR names an "+
				"editor: change what `fairlead get %s %s -o yaml` prints, and give it to `fairlead apply -f FILE`",
				k.Singular(), args[1])
		}
		return a.HubCommand(func(ctx context.Context, h *hubclient.Hub, args []string) error {
			e.hub = h
			return e.editResource(ctx, k, args[0])
		})(cmd, args[1:])
	}
	return cmd
}

func (e *editing) editResource(ctx context.Context, k resource.Kind, name string) error {
	m, err := k.ReadOne(ctx, e.hub, name)
	if err != nil {
		return err
	}
	before, err := renderEditable(m)
	if err != nil {
		return err
	}
	file, after, err := e.inEditor(ctx, before)
	if err != nil {
		return err
	}
	if bytes.Equal(before, after) {
		e.app.Notef("nothing was changed\n")
		return os.Remove(file)
	}
	written, err := e.writeEdit(ctx, k, name, file, after)
	switch {
	case err != nil:
		return fmt.Errorf("%w\nwhat you wrote is in %s", err, file)
	case !written:
		return flags.Exit(differs)
	}
	return os.Remove(file)
}

// renderEditable renders a resource as apply takes it, with the etag that keeps an edit from writing over one of
// somebody else.
func renderEditable(m catalogyaml.Message) ([]byte, error) {
	etag := m.GetMetadata().GetEtag()
	head := resource.AsWritten(m).GetMetadata()
	head.Etag = etag
	return catalogyaml.YAML(m)
}

// chosenEditor is the command of the editor that the environment names; empty: it names none.
func (e *editing) chosenEditor() string {
	return strings.TrimSpace(cmp.Or(e.app.Getenv("FAIRLEAD_EDITOR"), e.app.Getenv("KUBE_EDITOR"),
		e.app.Getenv("VISUAL"), e.app.Getenv("EDITOR")))
}

// inEditor has a person change a text in a file of its own.
func (e *editing) inEditor(ctx context.Context, text []byte) (name string, changed []byte, err error) {
	file, err := os.CreateTemp("", "fairlead-*.yaml")
	if err != nil {
		return "", nil, err
	}
	_, err = file.Write(text)
	if err := errors.Join(err, file.Close()); err != nil {
		return "", nil, err
	}
	program := cmp.Or(e.chosenEditor(), "vi")
	editor := app.ChosenProgram(ctx, program, file.Name())
	editor.Stdin, editor.Stdout, editor.Stderr = e.app.Stdin, e.app.Stdout, e.app.Stderr
	if err := editor.Run(); err != nil {
		return "", nil, fmt.Errorf("editor %s: %w: set FAIRLEAD_EDITOR to another one; the text is in %s",
			program, err, file.Name())
	}
	changed, err = os.ReadFile(file.Name())
	return file.Name(), changed, err
}

// writeEdit shows what an edit would change, asks, and writes it. false: it was a dry run only.
func (e *editing) writeEdit(
	ctx context.Context, k resource.Kind, name, file string, text []byte,
) (written bool, err error) {
	objects, err := catalogyaml.Decode(file, text)
	if err == nil {
		err = catalogyaml.Validate(objects)
	}
	if err != nil {
		return false, fmt.Errorf("nothing was changed:\n%w", err)
	}
	if len(objects) != 1 || objects[0].Kind() != k.ID || objects[0].Name() != name {
		return false, fmt.Errorf("nothing was changed: the text must be %s %q and nothing else; `fairlead create -f FILE` makes another one", k.Singular(), name)
	}
	w := writing{app: e.app, hub: e.hub, yes: e.yes, dryRun: true}
	err = w.writeObjects(ctx, objects)
	if code, ok := errors.AsType[flags.Exit](err); err != nil && (!ok || code != differs) {
		return false, err
	}
	switch {
	case err == nil:
		return true, nil // the hub finds no difference
	case e.dryRun:
		return false, nil
	case !e.yes && !e.app.AskAgreement(ctx):
		return false, errors.New("nothing was changed: say --yes to go on")
	}
	w.dryRun = false
	return true, w.writeObjects(ctx, objects)
}
