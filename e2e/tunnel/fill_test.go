package tunnel

import (
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// objects are that many in namespace many.
const objects = 5000

// fill puts into the cluster what the tests read, straight.
func fill(ctx context.Context) error {
	var setup strings.Builder
	setup.WriteString(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: fairlead-admins}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: "fairlead:admins"}]
---
apiVersion: v1
kind: Namespace
metadata: {name: many}
`)
	for _, name := range []string{"straight", "way-x1", "way-x2", "way-nginx"} {
		fmt.Fprintf(&setup, "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: %[1]s}\n---\n"+
			"apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: %[1]s}\nspec: {containers: [{name: web, image: web}]}\n", name)
	}
	// The service account that pods want comes a moment after their namespace.
	for began := time.Now(); ; {
		_, err := world.kube.Kubectl(ctx, setup.String(), "apply", "--server-side", "-f", "-")
		if err == nil {
			break
		}
		if time.Since(began) > patience || ctx.Err() != nil {
			return err
		}
	}
	if _, err := world.kube.Kubectl(ctx, "", "wait", "--for=condition=Ready", "pod", "--field-selector=metadata.name=web", "-A", "--timeout=60s"); err != nil {
		return err
	}
	if err := aggregate(ctx, world.aggregated); err != nil {
		return err
	}
	// By several, for one after the other takes its time.
	const hands = 10
	group, ctx := errgroup.WithContext(ctx)
	for hand := range hands {
		group.Go(func() error {
			var list strings.Builder
			for i := range objects / hands {
				fmt.Fprintf(&list, "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: object-%d-%d, namespace: many, labels: {many: ours}}\ndata: {text: %q}\n",
					hand, i, strings.Repeat("tunnel ", 20))
			}
			_, err := world.kube.Kubectl(ctx, list.String(), "create", "--validate=false", "-f", "-")
			return err
		})
	}
	return group.Wait()
}
