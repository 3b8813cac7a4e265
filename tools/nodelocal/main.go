// Command nodelocal runs real Kubernetes nodes on one machine: a control plane of kubelocal, and kubelets that start real
// containers, all in namespaces of their own. The command is for tests and for trying things out, needs root and Linux,
// and leaves nothing behind.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"fairlead.dev/tools/nodelocal/internal/image"
	"fairlead.dev/tools/nodelocal/internal/lab"
	"fairlead.dev/tools/nodelocal/internal/node"
)

const usage = `usage:
  nodelocal start --dir DIR --kubelocal FILE [--name NAME] [--nodes 1] [--image ARCHIVE]...
        run a cluster with real nodes in the foreground, until SIGTERM, Ctrl-C or the end of the parent process
  nodelocal exec --dir DIR [--node NAME] -- COMMAND [ARGUMENT]...
        run a command in the lab's network, or on a node
  nodelocal cut --dir DIR --node NAME
        cut a node's power
  nodelocal boot --dir DIR --node NAME
        switch a node on again
  nodelocal check [--dir DIR]
        tell whether this machine can run real nodes (with their state in DIR); the exit code is 1 if not
  nodelocal image --tag NAME:TAG --entrypoint FILE --out ARCHIVE
        make an image of one static program
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	var exit *exec.ExitError
	switch {
	case err == nil:
	case errors.As(err, &exit) && exit.ExitCode() >= 0:
		os.Exit(exit.ExitCode()) // of exec's command
	default:
		fmt.Fprintln(os.Stderr, "nodelocal:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		args = []string{""}
	}
	command, args := args[0], args[1:]
	switch command {
	case "start":
		return start(ctx, args, stdout, stderr)
	case "exec":
		return enter(args, stderr)
	case "cut", "boot":
		return power(ctx, command, args, stderr)
	case "check":
		return check(args, stderr)
	case "image":
		return makeImage(args, stderr)
	case "help", "-h", "--help":
		fmt.Fprint(stdout, usage)
		return nil

	// The stages of a lab, which start each other.
	case lab.Janitor:
		return lab.CleanUp(args)
	case lab.Inside:
		return lab.RunInside(args)
	case lab.First:
		return lab.RunFirst(args)
	case lab.Second:
		return lab.RunLab(ctx, args, stdout, stderr)
	case node.First, node.Second:
		if len(args) != 1 {
			return fmt.Errorf("%s: want the number of the node", command)
		}
		number, err := strconv.Atoi(args[0])
		if err != nil {
			return fmt.Errorf("%s: the number of the node: %w", command, err)
		}
		if command == node.First {
			return node.RunFirst(number)
		}
		return node.Run(ctx, number, stderr)
	}
	return fmt.Errorf("unknown command %q\n%s", command, usage)
}

// parse parses flags; done is true where the help was asked for.
func parse(flags *flag.FlagSet, args []string, stderr io.Writer) (done bool, err error) {
	flags.SetOutput(stderr)
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return true, nil
	} else if err != nil {
		return false, err
	}
	return false, nil
}

func noArguments(flags *flag.FlagSet) error {
	if flags.NArg() > 0 {
		return fmt.Errorf("%s takes no arguments, only flags: %q", flags.Name(), flags.Args())
	}
	return nil
}

func start(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	cfg := lab.Config{Stdout: stdout, Stderr: stderr}
	flags := flag.NewFlagSet("start", flag.ContinueOnError)
	flags.StringVar(&cfg.Dir, "dir", "", "the `folder` that keeps all of the lab's state (made when missing)")
	flags.StringVar(&cfg.Kubelocal, "kubelocal", "", "the `file` that tools/kubelocal/build.sh prints")
	flags.StringVar(&cfg.Name, "name", "", "the cluster's `name` in its kubeconfig (default: the folder's name)")
	flags.IntVar(&cfg.Nodes, "nodes", 1, "how many nodes run")
	flags.Func("image", "an `archive` as docker save writes it, that every node gets (repeat it for more)", func(file string) error {
		cfg.Images = append(cfg.Images, file)
		return nil
	})
	if done, err := parse(flags, args, stderr); done || err != nil {
		return err
	}
	if err := noArguments(flags); err != nil {
		return err
	}
	return lab.Start(ctx, cfg)
}

func check(args []string, stderr io.Writer) error {
	flags := flag.NewFlagSet("check", flag.ContinueOnError)
	dir := flags.String("dir", "", "the `folder` that is to keep a lab's state; it need not be there yet")
	if done, err := parse(flags, args, stderr); done || err != nil {
		return err
	}
	if err := noArguments(flags); err != nil {
		return err
	}
	if err := lab.Check(); err != nil || *dir == "" {
		return err
	}
	return lab.CheckDir(*dir)
}

func enter(args []string, stderr io.Writer) error {
	flags := flag.NewFlagSet("exec", flag.ContinueOnError)
	dir := flags.String("dir", "", "the `folder` of a running lab")
	name := flags.String("node", "", "the node to run the command on (default: beside the nodes, in the lab's network)")
	if done, err := parse(flags, args, stderr); done || err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return errors.New("exec: which command? Write it behind --")
	}
	return lab.Exec(*dir, *name, flags.Args())
}

func power(ctx context.Context, command string, args []string, stderr io.Writer) error {
	flags := flag.NewFlagSet(command, flag.ContinueOnError)
	dir := flags.String("dir", "", "the `folder` of a running lab")
	name := flags.String("node", "", "the `name` of the node")
	if done, err := parse(flags, args, stderr); done || err != nil {
		return err
	}
	if err := noArguments(flags); err != nil {
		return err
	}
	return lab.Power(ctx, *dir, command, *name)
}

func makeImage(args []string, stderr io.Writer) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	tag := flags.String("tag", "", "the image's `name`, with a tag")
	entrypoint := flags.String("entrypoint", "", "the `file` of the program")
	out := flags.String("out", "", "the `archive` to write")
	if done, err := parse(flags, args, stderr); done || err != nil {
		return err
	}
	if err := noArguments(flags); err != nil {
		return err
	}
	if !strings.Contains(*tag, ":") || *entrypoint == "" || *out == "" {
		return errors.New("image: --tag NAME:TAG, --entrypoint and --out are required")
	}
	return image.Write(*out, *tag, *entrypoint)
}
