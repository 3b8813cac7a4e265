package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// maxAnswerBytes bounds what is read of an answer; a list of maxNodes nodes is about 1 MiB.
const maxAnswerBytes = 16 << 20

// client makes the few calls that bring a cluster up, as its administrator.
type client struct {
	http    *http.Client
	server  string
	kubelet string
}

func newClient(server string, p ports, credentials pki) (*client, error) {
	config, err := credentials.tlsConfig()
	if err != nil {
		return nil, err
	}
	return &client{
		http: &http.Client{
			Transport: &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true},
			Timeout:   10 * time.Second,
		},
		server:  server,
		kubelet: "https://" + loopback(p.Kubelet),
	}, nil
}

func (c *client) ready(ctx context.Context) error {
	return c.call(ctx, http.MethodGet, c.server+"/readyz", nil, nil)
}

func (c *client) kubeletReady(ctx context.Context) error {
	return c.call(ctx, http.MethodGet, c.kubelet+"/healthz", nil, nil)
}

func (c *client) defaultServiceAccount(ctx context.Context) error {
	return c.call(ctx, http.MethodGet, c.server+"/api/v1/namespaces/default/serviceaccounts/default", nil, nil)
}

// object is a Kubernetes object as decoded JSON.
type object = map[string]any

// ensureNode creates a node and says where its kubelet listens, which changes when that port was
// taken between two runs. Its conditions are kwok's to write.
func (c *client) ensureNode(ctx context.Context, name string, kubeletPort int, version string) error {
	resources := object{"cpu": "32", "memory": "128Gi", "ephemeral-storage": "512Gi", "pods": "1000"}
	node := object{
		"apiVersion": "v1",
		"kind":       "Node",
		"metadata": object{"name": name, "labels": object{
			"kubernetes.io/hostname": name,
			"kubernetes.io/os":       "linux",
			"kubernetes.io/arch":     "amd64",
		}},
	}
	status := object{"status": object{
		"capacity":        resources,
		"allocatable":     resources,
		"addresses":       []object{{"type": "InternalIP", "address": "127.0.0.1"}, {"type": "Hostname", "address": name}},
		"daemonEndpoints": object{"kubeletEndpoint": object{"Port": kubeletPort}},
		"nodeInfo":        object{"kubeletVersion": version, "operatingSystem": "linux", "architecture": "amd64"},
	}}
	nodes := c.server + "/api/v1/nodes"
	if err := c.call(ctx, http.MethodPost, nodes, node, nil); err != nil && !isConflict(err) {
		return fmt.Errorf("create %s: %w", name, err)
	}
	if err := c.call(ctx, http.MethodPatch, nodes+"/"+name+"/status", status, nil); err != nil {
		return fmt.Errorf("describe %s: %w", name, err)
	}
	return nil
}

// nodesReady wants every node Ready and without a taint: pods are then scheduled at once.
func (c *client) nodesReady(ctx context.Context) error {
	var nodes struct {
		Items []struct {
			Metadata struct{ Name string }
			Spec     struct{ Taints []struct{ Key string } }
			Status   struct {
				Conditions []struct{ Type, Status string }
			}
		}
	}
	if err := c.call(ctx, http.MethodGet, c.server+"/api/v1/nodes", nil, &nodes); err != nil {
		return err
	}
	for _, node := range nodes.Items {
		ready := false
		for _, condition := range node.Status.Conditions {
			ready = ready || condition.Type == "Ready" && condition.Status == "True"
		}
		if !ready || len(node.Spec.Taints) > 0 {
			return fmt.Errorf("%s: ready %t, taints %v", node.Metadata.Name, ready, node.Spec.Taints)
		}
	}
	return nil
}

// statusError is an answer other than 2xx.
type statusError struct {
	code int
	body string
}

func (e *statusError) Error() string { return fmt.Sprintf("HTTP %d: %s", e.code, e.body) }

func isConflict(err error) bool {
	var status *statusError
	return errors.As(err, &status) && status.code == http.StatusConflict
}

// call sends in (when not nil) and decodes the answer into out (when not nil).
func (c *client) call(ctx context.Context, method, url string, in, out any) error {
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("encode the request: %w", err)
		}
		body = bytes.NewReader(data)
	}
	request, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return fmt.Errorf("make the request: %w", err)
	}
	request.Header.Set("User-Agent", "kubelocal")
	request.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		request.Header.Set("Content-Type", "application/merge-patch+json")
	}
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes))
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	if response.StatusCode/100 != 2 {
		return &statusError{response.StatusCode, string(data[:min(len(data), 512)])}
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("decode the answer: %w", err)
	}
	return nil
}
