package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"fairlead.dev/e2e/stack"
)

// nodes installs the charts on three real nodes and cuts some of them: the test of `make nodes`, with few rounds, takes
// the figures.
func nodes(ctx context.Context, _ stack.Binaries, _ string, stdout io.Writer) error {
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-v", "-vet=off", "-timeout=60m",
		"-run=^TestThreeNodesUnderFaults$", "fairlead.dev/e2e/nodes", "-args", "-long", "-rounds=4")
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = io.MultiWriter(&said, os.Stderr), os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("three nodes under faults: %w", err)
	}
	for line := range strings.Lines(said.String()) {
		if _, figure, ok := strings.Cut(line, "BENCH "); ok {
			if _, err := fmt.Fprint(stdout, "BENCH ", figure); err != nil {
				return err
			}
		}
	}
	return nil
}
