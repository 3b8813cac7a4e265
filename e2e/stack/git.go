package stack

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"testing/fstest"

	"fairlead.dev/platform/gitserver"
	"fairlead.dev/platform/localca"
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

// proxyGit serves the repository at an address of a network, too, and returns its URL there: the Git server itself
// answers on loopback alone.
func (s *Stack) proxyGit(ctx context.Context, listen string, ca localca.Files) (string, error) {
	target, err := url.Parse(s.GitURL)
	if err != nil {
		return "", err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return "", err
	}
	server := &http.Server{
		ReadHeaderTimeout: grace,
		Handler: &httputil.ReverseProxy{
			Rewrite:  func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: target.Scheme, Host: target.Host}) },
			ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // clients are cut off on purpose
		},
	}
	ended := make(chan error, 1)
	go func() { ended <- server.ServeTLS(l, ca.CertFile, ca.KeyFile) }()
	s.close = append(s.close, func() error {
		err := server.Close()
		if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		return err
	})
	return (&url.URL{Scheme: "https", Host: listen, Path: target.Path}).String(), nil
}
