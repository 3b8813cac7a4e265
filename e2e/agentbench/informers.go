package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

// followKinds follows the kinds of a view as controllers do, whole objects in memory, and prints the resident memory
// before and after, in MiB. What the lists needed for a moment is given back before the look.
func followKinds(ctx context.Context, kubeconfig string, stdout io.Writer) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	if _, err := client.Discovery().ServerVersion(); err != nil { // the connection is made before the first look
		return err
	}
	before, err := resident()
	if err != nil {
		return err
	}
	f := informers.NewSharedInformerFactory(client, 0)
	for _, one := range []cache.SharedIndexInformer{
		f.Core().V1().Nodes().Informer(), f.Core().V1().Pods().Informer(), f.Core().V1().PersistentVolumeClaims().Informer(), f.Core().V1().Events().Informer(),
		f.Apps().V1().Deployments().Informer(), f.Apps().V1().StatefulSets().Informer(), f.Apps().V1().DaemonSets().Informer(), f.Apps().V1().ReplicaSets().Informer(),
		f.Batch().V1().Jobs().Informer(), f.Batch().V1().CronJobs().Informer(),
	} {
		if one.HasSynced() {
			return errors.New("an informer has objects before it runs")
		}
	}
	f.Start(ctx.Done())
	for kind, synced := range f.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return errors.New("no list of " + kind.String())
		}
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(10 * time.Second):
	}
	after, err := resident()
	if err != nil {
		return err
	}
	return json.NewEncoder(stdout).Encode(map[string]float64{"Before": before, "After": after})
}

// resident is the resident memory of this process in MiB.
func resident() (float64, error) {
	debug.FreeOSMemory()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	kib, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	n, err := strconv.ParseFloat(kib, 64)
	return n / 1024, err
}
