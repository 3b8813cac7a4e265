package rpc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/durationpb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/catalogyaml"
	"fairlead.dev/platform/refusal"
	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/console/internal/call"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/store"
)

// maxDeclared is how many resources one folder declares: what is written at once holds up other writers.
const maxDeclared = 10_000

func (s *statuses) ApplyFolder(ctx context.Context, req *consolev1.ApplyFolderRequest) (*consolev1.ApplyFolderResponse, error) {
	d := catalog.Delivered{
		Service: req.GetService(), UID: req.GetUid(), ServiceRevision: req.GetServiceRevision(), Digest: req.GetDigest(), Revision: decodeRevision(req.GetRevision()),
	}
	var answer catalog.Answer
	var err error
	if req.GetContent() == nil {
		answer, err = s.Catalog.AskFolder(ctx, d)
	} else {
		answer, err = s.Catalog.ApplyFolder(ctx, d, s.content(req.GetContent()), telemetry.TraceID(d.Revision.Traceparent))
	}
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	out := &consolev1.ApplyFolderResponse{Settled: answer.Settled, Wanted: answer.Wanted}
	if answer.Retry > 0 {
		out.RetryAfter = durationpb.New(answer.Retry)
	}
	return out, nil
}

// content reads what a folder declares, as `fairlead apply -f` reads files.
func (s *statuses) content(in *consolev1.FolderContent) (out catalog.Content) {
	if out.Refusal = in.GetRefusal(); out.Refusal != "" {
		return out
	}
	objects, problems, err := declared(in.GetFiles())
	if err != nil {
		out.Refusal = err.Error()
		return out
	}
	readable, all := problems.Without(objects)
	var written []*catalogyaml.Object
	for _, o := range readable {
		o.Message.GetMetadata().Etag = "" // of when it was written to Git
		r, err := catalogyaml.Resource(o.Message)
		if err != nil {
			out.Refusal = o.Problem("", err.Error()).String()
			return out
		}
		if s.isFixed(r) {
			continue
		}
		edit, err := s.draftAny(r)
		if err != nil {
			out.Refusal = o.Problem("", err.Error()).String()
			return out
		}
		written, out.Edits = append(written, o), append(out.Edits, edit)
	}
	if len(problems) > 0 {
		out.Refusal = problems.Error()
		out.Edits = append(out.Edits, unreadable(problems)...)
	}
	out.Locate = func(faults []refusal.Fault) string { return located(written, len(out.Edits), faults, problems, all) }
	return out
}

// unreadable stands for the resources that problems are about, each once: what names them names something that is to
// come.
func unreadable(problems catalogyaml.Problems) (edits []catalog.Edit) {
	seen := map[string]bool{"": true}
	for _, p := range problems {
		if seen[p.Ref] {
			continue
		}
		seen[p.Ref] = true
		kind, name, _ := strings.Cut(p.Ref, "/")
		edits = append(edits, catalog.Broken(store.Kind(kind), name, refusal.New(refusal.Invalid, "%s", p.Message)))
	}
	return edits
}

// declared reads files. Problems are with some of the objects, or with what is none; the error is about all.
func declared(files []*consolev1.FolderFile) ([]*catalogyaml.Object, catalogyaml.Problems, error) {
	var objects []*catalogyaml.Object
	var problems catalogyaml.Problems
	collect := func(err error) {
		if some, ok := errors.AsType[catalogyaml.Problems](err); ok {
			problems = append(problems, some...)
		}
	}
	var reader catalogyaml.Reader
	for _, f := range files {
		if reader.Stopped() {
			break
		}
		found, err := reader.Decode(f.GetPath(), f.GetData())
		collect(err)
		if objects = append(objects, found...); len(objects) > maxDeclared {
			return nil, nil, fmt.Errorf("it declares more than %d resources: make several services of it, of a folder each", maxDeclared)
		}
	}
	collect(catalogyaml.Validate(objects))
	if reader.Stopped() {
		return nil, nil, problems
	}
	return objects, problems, nil
}

// located tells refusals by where they are written, with the problems of what could not be read. The first of edits are
// of objects, and those behind them of what problems are about; refusals about what left the folder stand nowhere.
// Unless all problems say which resource they are about, a resource that seems to be missing may be one of those.
func located(objects []*catalogyaml.Object, edits int, faults []refusal.Fault, problems catalogyaml.Problems, all bool) string {
	problems = slices.Clone(problems)
	var others []string
	for _, f := range faults {
		p := call.Problem(f)
		switch {
		case f.Err.Absent && !all:
		case f.Index < len(objects):
			problems = append(problems, objects[f.Index].Problem(p.GetField(), p.GetMessage()))
		case f.Index >= edits:
			others = append(others, p.GetMessage())
		}
	}
	if len(problems) > 0 {
		problems.Sort()
		others = append([]string{problems.Error()}, others...)
	}
	return strings.Join(others, "\n")
}
