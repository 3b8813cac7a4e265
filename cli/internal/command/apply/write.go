package apply

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/table"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/catalogyaml"
	"fairlead.dev/platform/flags"
	"fairlead.dev/platform/plural"
)

const (
	// maxPart and maxPartBytes are well within what the console takes at once.
	maxPart      = 10_000
	maxPartBytes = 3 << 20
)

// writing is how objects are sent to the hub.
type writing struct {
	app    *app.App
	hub    *hubclient.Hub
	set    string
	prune  bool
	dryRun bool
	yes    bool
	differ bool // a dry run has found something to do
}

// writeObjects sends objects: all at once, or in parts if they are many.
func (w *writing) writeObjects(ctx context.Context, objects []*catalogyaml.Object) error {
	for total, done := len(objects), 0; ; {
		n := partOf(objects)
		if n < total && w.prune {
			return fmt.Errorf("these are %d resources, more than can be written at once: prune them in smaller sets", total)
		}
		if err := w.writePart(ctx, objects[:n]); err != nil {
			return w.explainPart(ctx, err, done, n, total)
		}
		objects, done = objects[n:], done+n
		if len(objects) == 0 {
			break
		}
		w.app.Notef("%s\n", plural.Part(done, total, "resource"))
	}
	if w.dryRun && w.differ {
		return flags.Exit(differs)
	}
	return nil
}

// explainPart says what is applied once a part fails behind others that are done: of a part without an answer it is not
// known.
func (w *writing) explainPart(ctx context.Context, err error, done, part, total int) error {
	lost := hubclient.IsAway(err) || ctx.Err() != nil
	if w.dryRun || part == total || done == 0 && !lost {
		return err
	}
	text := fmt.Sprintf("%s %s applied", plural.Part(done, total, "resource"), plural.Are(total))
	if done > 0 {
		text += ", as printed above"
	}
	switch {
	case !lost:
		text += "; of the rest, nothing"
	case done+part < total:
		text += fmt.Sprintf("; of the next %d it is not known, and of the rest, nothing: apply the same again", part)
	default:
		text += fmt.Sprintf("; of the next %d it is not known: apply the same again", part)
	}
	return fmt.Errorf("%w\n%s", err, text)
}

// partOf is how many of the first objects go together.
func partOf(objects []*catalogyaml.Object) (n int) {
	size := 0
	for n < min(len(objects), maxPart) {
		size += proto.Size(objects[n].Message)
		if n > 0 && size > maxPartBytes {
			break
		}
		n++
	}
	return n
}

func (w *writing) writePart(ctx context.Context, objects []*catalogyaml.Object) error {
	req := &consolev1.ApplyRequest{Set: w.set, Prune: w.prune, DryRun: w.dryRun}
	for _, o := range objects {
		r, err := catalogyaml.Resource(o.Message)
		if err != nil {
			return err
		}
		req.Resources = append(req.Resources, r)
	}
	var res *consolev1.ApplyResponse
	err := w.app.ConfirmAndDo(ctx, w.yes, func(ctx context.Context, confirmation string) (err error) {
		req.Confirmation = confirmation
		res, err = w.hub.Applies.Apply(ctx, req)
		return err
	})
	if err != nil {
		return locateProblems(err, objects)
	}
	for _, r := range res.GetResults() {
		if err := w.printApplied(r); err != nil {
			return err
		}
	}
	w.reportTouched(res)
	return nil
}

// shownTouched is how many services are named that get another configuration.
const shownTouched = 20

// reportTouched says which services get another configuration by what was applied.
func (w *writing) reportTouched(res *consolev1.ApplyResponse) {
	total := int(res.GetTouchedTotal())
	if total == 0 {
		return
	}
	verb := "gets"
	switch {
	case w.dryRun:
		verb = "would get"
	case total > 1:
		verb = "get"
	}
	var names []string
	for _, s := range res.GetTouchedServices() {
		name := s.GetName()
		if len(s.GetEntries()) > 0 {
			name += " (" + strings.Join(s.GetEntries(), ", ") + ")"
		}
		if s.GetProblem() != "" {
			name += ", which keeps its values: " + s.GetProblem()
		}
		names = append(names, name)
	}
	names = names[:min(len(names), shownTouched)]
	if more := total - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	w.app.Notef("%s %s another configuration: %s\n", plural.Of(total, "service"), verb,
		table.CleanLine(strings.Join(names, "; ")))
}

// locateProblems puts what the hub says of resources where they are written.
func locateProblems(err error, objects []*catalogyaml.Object) error {
	found, ok := app.FindDetail[*consolev1.ApplyProblems](err)
	if !ok {
		return err
	}
	var problems catalogyaml.Problems
	for _, p := range found.GetProblems() {
		if i := int(p.GetIndex()); i >= 0 && i < len(objects) {
			problems = append(problems, objects[i].Problem(p.GetField(), p.GetMessage()))
		}
	}
	if len(problems) != len(found.GetProblems()) {
		return err // the error is about resources that were to be pruned
	}
	problems.Sort()
	return fmt.Errorf("nothing was applied:\n%w", problems)
}

func (w *writing) printApplied(r *consolev1.Applied) error {
	what := kindText(r.GetKind()) + "/" + r.GetName() + " " + catalogyaml.Short(r.GetOutcome())
	if w.dryRun && r.GetOutcome() != consolev1.ApplyOutcome_APPLY_OUTCOME_UNCHANGED {
		w.differ = true
		what += " (dry run)"
	}
	if r.GetNote() != "" {
		what += ": " + table.CleanLine(r.GetNote())
	}
	return w.app.Printf("%s\n%s", what, table.CleanText(r.GetDiff()))
}

// kindText is a kind as commands take it.
func kindText(k consolev1.Kind) string {
	return strings.ReplaceAll(catalogyaml.Short(k), "-", "")
}
