package e2e

import (
	"fmt"
	"strings"
	"testing"

	"fairlead.dev/platform/buckettest"
)

// TestObjectsOfABucketGoLive: files that a real client writes run in every cluster, changed ones arrive, removed ones
// go, and with the server down rollbacks work all the same.
func TestObjectsOfABucketGoLive(t *testing.T) {
	t.Parallel()
	s := newLive(t)
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
	s.apply(resources.String())
	s.runs("dinghy", "dinghy", "first")
	s.runs("dinghy", "dinghy-more", "more")
	trace := s.fairlead("trace", "service", "dinghy-"+s.Clusters[0].Name)
	for _, words := range []string{server.Host + "/manifests/dinghy", "the bucket is ", "manifests/dinghy: 3 files"} {
		if !strings.Contains(trace, words) {
			t.Errorf("the trace does not say %q:\n%s", words, trace)
		}
	}

	server.Put(t, "manifests", map[string]string{"dinghy/config.yaml": configMap("dinghy", "second")})
	server.Remove(t, "manifests", "dinghy/more.yaml")
	s.fairlead("sources", "refresh", "bucket")
	s.runs("dinghy", "dinghy", "second")
	s.runs("dinghy", "dinghy-more", "")
	if out := s.fairlead("sources", "tree", "bucket"); !strings.Contains(out, "config.yaml") ||
		strings.Contains(out, "more.yaml") {
		t.Errorf("the tree is\n%s", out)
	}

	server.Stop()
	s.fairlead("sources", "refresh", "bucket")
	s.says([]string{server.Host + ": connection refused"}, "get", "source", "bucket")
	s.rollBack("dinghy")
	s.runs("dinghy", "dinghy", "first")
	s.runs("dinghy", "dinghy-more", "more")
}
