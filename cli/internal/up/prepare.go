package up

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"

	hubapi "fairlead.dev/cli/internal/hubclient"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/subprocess"
)

// The descriptions of a local cluster on its way: `fairlead get clusters -o wide` shows them.
const (
	describedBuilding = "Kubernetes and the agent are being built on this machine: some minutes the first time, then cached"
	describedStarting = "Kubernetes is starting on this machine: some seconds, with a real node up to a minute"
	describedJoining  = "the agent is joining: some seconds"
	describedFault    = "Kubernetes did not start on this machine: \"fairlead up\" says why; start that again"
)

// addClusters builds what the local clusters need, starts them, and has them join the hub, which people use meanwhile.
func (u *up) addClusters(ctx context.Context, api *hubapi.Hub, clusters []cluster, previous string) error {
	if _, err := fmt.Fprint(u.options.Stdout, u.earlyText(clusters, previous)); err != nil {
		return err
	}
	steps := []struct {
		described string
		do        func() error
	}{
		{describedBuilding, func() error { return u.prepareClusters(ctx, clusters) }},
		{describedStarting, func() error { return u.raiseClusters(ctx, clusters) }},
		{describedJoining, func() error { return u.joinAgents(ctx, clusters) }},
	}
	for _, step := range steps {
		u.describeClusters(ctx, api, clusters, step.described)
		if err := step.do(); err != nil {
			return err
		}
	}
	return nil
}

// earlyText is what can be used before there are clusters.
func (u *up) earlyText(clusters []cluster, previous string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nThe hub, its Git server and this command are ready after %.1f s; clusters join by themselves when they are built.\n\n", time.Since(u.began).Seconds())
	fmt.Fprintf(&b, "  %-12s %s\n", "git", u.git.URL(sampleName))
	fmt.Fprintf(&b, "  %-12s %s (in a browser; this link logs you in, once, within 10 minutes; later: fairlead open)\n",
		"pages", u.link)
	for _, c := range clusters {
		fmt.Fprintf(&b, "  %-12s %s, once it is there: `%s get clusters -o wide` shows how far it is\n", "cluster",
			c.Name, selfPath())
	}
	if previous != "" && previous != u.context {
		fmt.Fprintf(&b, "\nContext %q is the current one until this ends; then it is %q again.\n", u.context, previous)
	}
	return b.String() + "\n"
}

// prepareClusters runs the program that builds, shows what it says, and finds what it built.
func (u *up) prepareClusters(ctx context.Context, clusters []cluster) error {
	began := time.Now()
	u.sayf("building what clusters need: `%s`", u.options.Prepare)
	cmd := exec.Command(u.options.Prepare) //nolint:noctx // Ended by Stop below, not at once.
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &lineWriter{line: func(line string) { u.sayf("%s", line) }}
	cmd.WaitDelay = time.Second
	running, err := subprocess.Start(cmd)
	if err != nil {
		return fmt.Errorf("--prepare: start %s: %w", u.options.Prepare, err)
	}
	select {
	case <-running.Ended():
	case <-ctx.Done():
		return errors.Join(context.Cause(ctx), running.Stop(childGrace))
	}
	if err := running.Wait(); err != nil {
		return fmt.Errorf("--prepare %s: %w: what it said is above", u.options.Prepare, err)
	}
	path := strings.TrimSpace(out.String())
	if path == "" || strings.Contains(path, "\n") {
		return fmt.Errorf("--prepare %s: printed %q, and not the path of kubelocal alone", u.options.Prepare, path)
	}
	u.options.Kubelocal, u.options.Prepare = path, ""
	if err := u.options.findPrograms(clusters); err != nil {
		return err
	}
	u.planNodes(ctx, clusters)
	u.sayf("built after %.0f s", time.Since(began).Seconds())
	return nil
}

// raiseClusters brings clusters up at the same time. One that does not come up is left out with its fault, unless none
// does.
func (u *up) raiseClusters(ctx context.Context, clusters []cluster) error {
	var group sync.WaitGroup
	for i := range clusters {
		group.Go(func() { clusters[i].fault = u.raiseCluster(ctx, &clusters[i]) })
	}
	group.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var faults []error
	for _, c := range clusters {
		faults = append(faults, c.fault)
	}
	if len(clusters) > 0 && len(working(clusters)) == 0 {
		return errors.Join(faults...)
	}
	for _, c := range clusters {
		if c.fault != nil {
			u.sayf("%v: going on without %s", c.fault, c.Name)
		}
	}
	return nil
}

// describeClusters shows how far local clusters are, unless a person describes them otherwise. The description is for
// people only: a failure is said and stops nothing.
func (u *up) describeClusters(ctx context.Context, api *hubapi.Hub, clusters []cluster, text string) {
	for _, c := range working(clusters) {
		if !c.local {
			continue
		}
		if err := describeCluster(ctx, api, c.Name, text); err != nil && ctx.Err() == nil {
			u.sayf("describe cluster %s: %v", c.Name, err)
		}
	}
}

// undescribeClusters takes off what describeClusters has shown, in this run or in one that was interrupted: also of
// local clusters that this run is without. One with a fault says so.
func (u *up) undescribeClusters(ctx context.Context, api *hubapi.Hub, clusters []cluster) {
	for _, name := range localNames() {
		text := ""
		if slices.ContainsFunc(clusters, func(c cluster) bool { return c.Name == name && c.fault != nil }) {
			text = describedFault
		}
		if err := describeCluster(ctx, api, name, text); err != nil && connect.CodeOf(err) != connect.CodeNotFound &&
			ctx.Err() == nil {
			u.sayf("describe cluster %s: %v", name, err)
		}
	}
}

func describeCluster(ctx context.Context, api *hubapi.Hub, name, text string) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	got, err := api.Clusters.GetCluster(ctx, &consolev1.GetClusterRequest{Name: name})
	if err != nil {
		return err
	}
	is := got.GetCluster()
	switch is.GetSpec().GetDescription() {
	case text:
		return nil
	case "", describedBuilding, describedStarting, describedJoining, describedFault:
	default:
		return nil
	}
	if is.Spec == nil {
		is.Spec = &consolev1.ClusterSpec{}
	}
	is.Spec.Description = text
	_, err = api.Clusters.UpdateCluster(ctx, &consolev1.UpdateClusterRequest{Cluster: is})
	return err
}
