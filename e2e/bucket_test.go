package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"fairlead.dev/e2e/process"
	"fairlead.dev/platform/buckettest"
)

// TestObjectsOfABucketGoLive: files that a real client writes run in every cluster, changed ones arrive, removed ones go, and with the
// server down rollbacks work all the same.
func TestObjectsOfABucketGoLive(t *testing.T) {
	t.Parallel()
	s := shared(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	server := buckettest.Start(t)
	server.Put(t, "manifests", map[string]string{
		"dinghy/namespace.yaml": namespaceManifest("dinghy"), "dinghy/config.yaml": configMap("dinghy", "first"),
		"dinghy/more.yaml":  strings.ReplaceAll(configMap("dinghy", "more"), "name: dinghy,", "name: dinghy-more,"),
		"other/broken.yaml": "not for clusters: [",
	})
	var resources strings.Builder
	fmt.Fprintf(&resources, "apiVersion: fairlead.dev/v1\nkind: Secret\nmetadata: {name: bucket-keys}\ndata: {accesskey: %q, secretkey: %q, ca.crt: %q}\n",
		server.AccessKey, server.SecretKey, server.CA)
	fmt.Fprintf(&resources, "---\napiVersion: fairlead.dev/v1\nkind: Source\nmetadata: {name: bucket}\nspec:\n  bucket: {endpoint: %q, bucketName: manifests, region: %s, prefix: dinghy, secret: bucket-keys}\n",
		server.Host, server.Region)
	for _, c := range s.Clusters {
		fmt.Fprintf(&resources, "---\napiVersion: fairlead.dev/v1\nkind: Service\nmetadata: {name: dinghy-%s}\nspec: {source: bucket, cluster: %s}\n", c.Name, c.Name)
	}
	if out, err := s.FairleadStdin(ctx, resources.String(), "apply", "-f", "-"); err != nil {
		t.Fatalf("apply: %v\n%s", err, out)
	}
	fairlead := func(args ...string) string {
		t.Helper()
		out, err := s.Fairlead(ctx, args...)
		if err != nil {
			t.Fatalf("fairlead %v: %v\n%s", args, err, out)
		}
		return out
	}
	// runs waits until a ConfigMap says so in all clusters; "": it is gone.
	runs := func(name, want string) {
		t.Helper()
		for _, c := range s.Clusters {
			err := process.Await(ctx, name+" is "+want+" in "+c.Name, func(ctx context.Context) error {
				got, err := s.Kubectl(ctx, c.Kubeconfig, "get", "configmap", name, "-n", "dinghy", "--ignore-not-found", "-o", "jsonpath={.data.text}")
				if err == nil && got != want {
					err = fmt.Errorf("it is %q", got)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	runs("dinghy", "first")
	runs("dinghy-more", "more")
	trace := fairlead("trace", "service", "dinghy-"+s.Clusters[0].Name)
	for _, words := range []string{server.Host + "/manifests/dinghy", "the bucket is ", "manifests/dinghy: 3 files"} {
		if !strings.Contains(trace, words) {
			t.Errorf("the trace does not say %q:\n%s", words, trace)
		}
	}

	server.Put(t, "manifests", map[string]string{"dinghy/config.yaml": configMap("dinghy", "second")})
	server.Remove(t, "manifests", "dinghy/more.yaml")
	fairlead("sources", "refresh", "bucket")
	runs("dinghy", "second")
	runs("dinghy-more", "")
	if out := fairlead("sources", "tree", "bucket"); !strings.Contains(out, "config.yaml") || strings.Contains(out, "more.yaml") {
		t.Errorf("the tree is\n%s", out)
	}

	server.Stop()
	fairlead("sources", "refresh", "bucket")
	err := process.Await(ctx, "the source says that its server is down", func(ctx context.Context) error {
		out, err := s.Fairlead(ctx, "get", "source", "bucket")
		if err == nil && !strings.Contains(out, server.Host+": connection refused") {
			err = fmt.Errorf("it says %s", out)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range s.Clusters {
		fairlead("rollback", "service", "dinghy-"+c.Name, "--reason", "a test")
	}
	runs("dinghy", "first")
	runs("dinghy-more", "more")
}
