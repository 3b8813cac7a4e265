// Command agent-render renders one folder for the agent that started it, within limits, and ends. It is a program of
// its own because the agent, which stays, is not to carry what Kustomize and Helm need.
package main

import (
	"os"

	"fairlead.dev/services/agent/internal/render/child"
)

func main() { os.Exit(child.Main(os.Stdin, os.Stdout, os.NewFile(3, "answers"))) }
