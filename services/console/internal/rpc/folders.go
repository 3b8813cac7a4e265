package rpc

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/types/known/durationpb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/manifest"
	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/console/internal/catalog"
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
	objects, err := declared(in.GetFiles())
	if err != nil {
		out.Refusal = err.Error()
		return out
	}
	for _, o := range objects {
		o.Message.GetMetadata().Etag = "" // of when it was written to Git
		r, err := manifest.Resource(o.Message)
		if err != nil {
			out.Refusal = o.Problem("", err.Error()).String()
			return out
		}
		edit, err := (&applies{s.Deps}).draft(r)
		if err != nil {
			out.Refusal = o.Problem("", err.Error()).String()
			return out
		}
		out.Edits = append(out.Edits, edit)
	}
	out.Locate = func(faults []catalog.Fault) string { return located(objects, faults) }
	return out
}

func declared(files []*consolev1.FolderFile) ([]*manifest.Object, error) {
	var objects []*manifest.Object
	var problems manifest.Problems
	collect := func(err error) {
		if some, ok := errors.AsType[manifest.Problems](err); ok {
			problems = append(problems, some...)
		}
	}
	var reader manifest.Reader
	for _, f := range files {
		if reader.Stopped() {
			break
		}
		found, err := reader.Decode(f.GetPath(), f.GetData())
		collect(err)
		if objects = append(objects, found...); len(objects) > maxDeclared {
			return nil, fmt.Errorf("it declares more than %d resources: make several services of it, of a folder each", maxDeclared)
		}
	}
	collect(manifest.Validate(objects))
	if len(problems) > 0 {
		return nil, problems
	}
	return objects, nil
}

// located tells refusals by where they are written. Those about what left the folder stand nowhere.
func located(objects []*manifest.Object, faults []catalog.Fault) string {
	var problems manifest.Problems
	var others []string
	for _, f := range faults {
		p := encodeFault(f)
		if f.Index < len(objects) {
			problems = append(problems, objects[f.Index].Problem(p.GetField(), p.GetMessage()))
		} else {
			others = append(others, p.GetMessage())
		}
	}
	if len(problems) > 0 {
		others = append([]string{problems.Error()}, others...)
	}
	return strings.Join(others, "\n")
}
