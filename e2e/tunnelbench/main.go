// Command tunnelbench is everything but Fairlead that the tunnel's benchmark runs: the backend that all paths lead
// to, a reverse tunnel over yamux, konnectivity, a line with latency, and the load. Each as a process of its own.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http/httputil"
	"net/url"
	"os"
	"os/signal"
	"syscall"

	agentapp "sigs.k8s.io/apiserver-network-proxy/cmd/agent/app"
	agentoptions "sigs.k8s.io/apiserver-network-proxy/cmd/agent/app/options"
	serverapp "sigs.k8s.io/apiserver-network-proxy/cmd/server/app"
	serveroptions "sigs.k8s.io/apiserver-network-proxy/cmd/server/app/options"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "tunnelbench:", err)
		os.Exit(1) //nolint:gocritic // stop only unhooks signals
	}
}

// run is one part. Arguments are addresses: this program has one caller.
func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("which part?")
	}
	part, args := args[0], args[1:]
	switch {
	case part == "backend" && len(args) == 1:
		return backend(ctx, args[0])
	case part == "yamux" && len(args) == 2:
		return yamuxHub(ctx, args[0], args[1])
	case part == "yamux-proxy" && len(args) == 2:
		return yamuxProxy(ctx, args[0], args[1])
	case part == "yamux-agent" && len(args) == 2:
		return yamuxAgent(ctx, args[0], args[1])
	case part == "line" && len(args) == 3:
		return line(ctx, args[0], args[1], args[2])
	case part == "load" && len(args) == 0:
		return load(ctx, os.Stdin, os.Stdout)
	case part == "konnectivity-proxy" && len(args) == 3:
		return konnectivityProxy(ctx, args[0], args[1], args[2])
	case part == "konnectivity-server":
		return konnectivityServer(args)
	case part == "konnectivity-agent":
		return konnectivityAgent(args)
	default:
		return fmt.Errorf("no part %q with %d arguments", part, len(args))
	}
}

// konnectivityProxy is net/http's server and reverse proxy before konnectivity's door: what reads requests there, as
// the API server does that konnectivity is made for.
func konnectivityProxy(ctx context.Context, users, door, backend string) error {
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: backend})
	proxy.Transport = newClient(door).Transport
	return serve(ctx, users, proxy)
}

func konnectivityServer(args []string) error {
	o := serveroptions.NewProxyRunOptions()
	cmd := serverapp.NewProxyCommand(&serverapp.Proxy{}, o)
	cmd.Flags().AddFlagSet(o.Flags())
	cmd.SetArgs(args)
	return cmd.Execute()
}

func konnectivityAgent(args []string) error {
	o := agentoptions.NewGrpcProxyAgentOptions()
	cmd := agentapp.NewAgentCommand(&agentapp.Agent{}, o)
	cmd.Flags().AddFlagSet(o.Flags())
	cmd.SetArgs(args)
	return cmd.Execute()
}
