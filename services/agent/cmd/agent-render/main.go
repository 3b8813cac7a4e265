// Command agent-render renders one folder for the agent that started it, within limits, and ends. The command is a
// program of its own because the agent, which stays, is not to carry what Kustomize and Helm need.
package main

import (
	"fmt"
	"os"

	"fairlead.dev/platform/version"
	"fairlead.dev/services/agent/internal/render/child"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == "--version" { // a person asks: the agent gives no arguments
		_, _ = fmt.Fprintln(os.Stdout, "agent-render", version.String()) // fails if the reader is gone
		return
	}
	os.Exit(child.Main(os.Stdin, os.Stdout, os.NewFile(3, "answers")))
}
