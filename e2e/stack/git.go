package stack

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"testing/fstest"

	"fairlead.dev/platform/gitserver"
)

// serveGit serves one repository with a first commit, from this process.
func (s *Stack) serveGit(ctx context.Context, listen string) error {
	server, err := gitserver.New(gitserver.Config{
		Dir: filepath.Join(s.Dir, "git"), Listen: listen, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	if err := server.Create(ctx, "sample", fstest.MapFS{"README.md": {Data: []byte("A repository for tests.\n")}}); err != nil {
		return err
	}
	if err := server.Listen(); err != nil {
		return err
	}
	s.GitURL = server.URL("sample")
	ctx, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	s.close = append(s.close, func() error {
		stop(errors.New("the stack is stopped"))
		return <-ended
	})
	return nil
}
