package gitcache

import (
	"context"
	"fmt"
	"io"

	"fairlead.dev/services/gitcache/internal/combination"
	"fairlead.dev/services/gitcache/internal/origin"
)

// openPart reads a folder of one of several sources: from here, or from the replicas that have it. Nothing is asked of
// upstream.
func (s *Service) openPart(ctx context.Context, q combination.PartQuery) (io.ReadCloser, error) {
	answers, err := s.origin.Resolve(ctx, []origin.Query{{
		Source: q.Source, Revision: q.Commit.String(), Path: q.Folder.Path, Include: q.Folder.Include, Ignore: q.Folder.Ignore,
	}}, false)
	if err != nil {
		return nil, err
	}
	answer := answers[0]
	switch {
	case answer.Err != nil:
		return nil, answer.Err
	case answer.SourceUID != "" && answer.SourceUID != q.UID:
		return nil, fmt.Errorf("source %q was deleted and made again just now", q.Source)
	}
	content, err := s.store.Fill(ctx, answer.Artifact.Digest, s.find)
	if err != nil {
		return nil, fmt.Errorf("its artifact can't be read right now: %w", err)
	}
	return content, nil
}
