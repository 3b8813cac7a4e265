package stack

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"

	"fairlead.dev/e2e/process"
	"fairlead.dev/platform/client"
)

// Again runs another replica of a part of a stack made by Separate, and returns its URL. Agents are not told of it.
func (s *Stack) Again(part, name string) (string, error) {
	addrs, err := process.FreeAddresses(1)
	if err != nil {
		return "", err
	}
	url := "https://" + addrs[0]
	args := slices.Clone(s.parts[part].Args)
	for flag, value := range map[string]string{"--listen": addrs[0], "--data-dir": filepath.Join(s.Dir, name), "--advertise-url": url} {
		at := slices.Index(args, flag)
		if at < 0 {
			return "", fmt.Errorf("%s has no %s", part, flag)
		}
		args[at+1] = value
	}
	return url, s.add(process.New(s.Dir, name, s.bins.path(part), args...))
}

// Get asks a part of the hub as whoever has the token.
func (s *Stack) Get(ctx context.Context, url, token string) error {
	hc, err := client.New(client.Config{CAFile: s.CAFile})
	if err != nil {
		return err
	}
	defer hc.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := hc.Do(req)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("got %s: %s", resp.Status, text)
	}
	_ = resp.Body.Close()
	return err
}
