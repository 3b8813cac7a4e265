// Command agentbench does once what a peer of the agent does, and prints what that took: it applies a file of objects,
// or follows the kinds of a view with informers.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/fluxcd/pkg/ssa"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// workers apply at once, in either peer.
const workers = 8

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "agentbench:", err)
		os.Exit(1) //nolint:gocritic // stop only unhooks signals
	}
}

// run takes the peer's name, a kubeconfig and the file. This program has one caller.
func run(ctx context.Context, args []string, stdout io.Writer) error {
	if len(args) == 2 && args[0] == "informers" {
		return followKinds(ctx, args[1], stdout)
	}
	if len(args) != 3 {
		return errors.New("flux or ssa, a kubeconfig and a file are needed")
	}
	objects, err := read(args[2])
	if err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", args[1])
	if err != nil {
		return err
	}
	config.QPS = -1
	config.WarningHandler = rest.NoWarnings{}
	hc, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	mapper, err := apiutil.NewDynamicRESTMapper(config, hc)
	if err != nil {
		return err
	}
	// The kinds are known, and the connection is made, before the clock starts.
	for _, obj := range objects {
		gvk := obj.GroupVersionKind()
		if _, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version); err != nil {
			return err
		}
	}
	var took time.Duration
	switch args[0] {
	case "flux":
		took, err = flux(ctx, config, mapper, objects)
	case "ssa":
		took, err = plain(ctx, config, mapper, objects)
	default:
		err = fmt.Errorf("no peer %q", args[0])
	}
	if err != nil {
		return err
	}
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return err
	}
	cpu := time.Duration(used.Utime.Nano() + used.Stime.Nano())
	return json.NewEncoder(stdout).Encode(map[string]float64{"Seconds": took.Seconds(), "CPUSeconds": cpu.Seconds()})
}

func read(file string) ([]*unstructured.Unstructured, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var list []json.RawMessage
	if err := json.Unmarshal(content, &list); err != nil {
		return nil, err
	}
	objects := make([]*unstructured.Unstructured, len(list))
	for i, item := range list {
		objects[i] = &unstructured.Unstructured{}
		if err := objects[i].UnmarshalJSON(item); err != nil {
			return nil, err
		}
	}
	return objects, nil
}

// flux is what Flux's kustomize-controller does with what it has built.
func flux(ctx context.Context, config *rest.Config, mapper meta.RESTMapper, objects []*unstructured.Unstructured) (time.Duration, error) {
	ctx = log.IntoContext(ctx, log.Log)
	hc, err := rest.HTTPClientFor(config)
	if err != nil {
		return 0, err
	}
	c, err := client.New(config, client.Options{HTTPClient: hc, Mapper: mapper})
	if err != nil {
		return 0, err
	}
	manager := ssa.NewResourceManager(c, nil, ssa.Owner{Field: "flux", Group: "kustomize.toolkit.fluxcd.io"})
	manager.SetConcurrency(workers)
	begin := time.Now()
	_, err = manager.ApplyAll(ctx, objects, ssa.DefaultApplyOptions())
	return time.Since(begin), err
}

// plain sends each object by server-side apply, and does nothing else.
func plain(ctx context.Context, config *rest.Config, mapper meta.RESTMapper, objects []*unstructured.Unstructured) (time.Duration, error) {
	c, err := dynamic.NewForConfig(config)
	if err != nil {
		return 0, err
	}
	resources := map[schema.GroupVersionKind]schema.GroupVersionResource{}
	for _, obj := range objects {
		gvk := obj.GroupVersionKind()
		mapping, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		if err != nil {
			return 0, err
		}
		resources[gvk] = mapping.Resource
	}
	force := true
	options := metav1.PatchOptions{FieldManager: "plain", Force: &force}
	begin := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	for _, obj := range objects {
		group.Go(func() error {
			body, err := json.Marshal(obj.Object)
			if err != nil {
				return err
			}
			_, err = c.Resource(resources[obj.GroupVersionKind()]).Namespace(obj.GetNamespace()).Patch(ctx, obj.GetName(), types.ApplyPatchType, body, options)
			return err
		})
	}
	err = group.Wait()
	return time.Since(begin), err
}
