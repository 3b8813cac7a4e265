package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // CronJob time zones, on machines without a zone database

	"fairlead.dev/tools/kubelocal/internal/kubelet"
	"github.com/spf13/pflag"
	"go.etcd.io/etcd/server/v3/etcdmain"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // kubectl's credential plugins
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubectl/pkg/cmd"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kwokconfig "sigs.k8s.io/kwok/pkg/config"
	kwok "sigs.k8s.io/kwok/pkg/kwok/cmd"
	kwoklog "sigs.k8s.io/kwok/pkg/log"
	kwoksignals "sigs.k8s.io/kwok/pkg/utils/signals"
)

// component is a program inside this binary, or nil. Each reads its arguments from os.Args, as it
// would as a program of its own, and returns an exit code. Only one of them runs in a process: they
// share global feature gates and metric registries.
func component(name string) func() int {
	switch name {
	case "etcd":
		return runEtcd
	case "kube-apiserver":
		return func() int { return cli.Run(apiserver.NewAPIServerCommand()) }
	case "kube-controller-manager":
		return func() int { return cli.Run(controllermanager.NewControllerManagerCommand()) }
	case "kube-scheduler":
		return func() int { return cli.Run(scheduler.NewSchedulerCommand()) }
	case "kubectl":
		return runKubectl
	case "kubelet":
		return runKubelet
	case "kwok":
		return runKwok
	}
	return nil
}

func runEtcd() int {
	etcdmain.Main(os.Args)
	return 0
}

func runKubectl() int {
	// kubectl finds plugins and reads preferences before it parses flags, and logs while it does.
	_, _ = logs.GlogSetter(cmd.GetLogVerbosity(os.Args))
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		cmdutil.CheckErr(err) // prints it as kubectl does, and exits
	}
	return 0
}

func runKubelet() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := kubelet.Run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "kubelet:", err)
		return 1
	}
	return 0
}

func runKwok() int {
	// The Kubernetes components put a --version into the global flags, which clashes with kwok's own.
	pflag.CommandLine = pflag.NewFlagSet("kwok", pflag.ContinueOnError)

	flags := pflag.NewFlagSet("global", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true // the command below parses the rest
	flags.Usage = func() {}

	ctx, logger := kwoklog.InitFlags(kwoksignals.SetupSignalContext(), flags)
	ctx, err := kwokconfig.InitFlags(ctx, flags)
	if err != nil {
		logger.Error("read configuration", "err", err)
		return 1
	}
	command := kwok.NewCommand(ctx)
	command.PersistentFlags().AddFlagSet(flags)
	if err := command.ExecuteContext(ctx); err != nil {
		logger.Error("run kwok", "err", err)
		return 1
	}
	return 0
}
