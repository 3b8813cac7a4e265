package agent

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/yaml"

	"fairlead.dev/platform/retry"
)

// Object is a Kubernetes object, or a patch of one.
type Object = map[string]any

// Kube asks an API server directly, past the proxy, as its administrator. Its writes have one field manager.
type Kube struct {
	url  string
	http *http.Client
}

// Rival is the field manager of all that a Kube writes.
const Rival = "somebody"

// writers is how many requests of a storm are under way at once.
const writers = 16

// OpenKube reads a kubeconfig with a client certificate.
func OpenKube(kubeconfig string) (*Kube, error) {
	text, err := os.ReadFile(kubeconfig)
	if err != nil {
		return nil, err
	}
	var file struct {
		Clusters []struct {
			Cluster struct {
				Server string
				CA     []byte `json:"certificate-authority-data"`
			}
		}
		Users []struct {
			User struct {
				Certificate []byte `json:"client-certificate-data"`
				Key         []byte `json:"client-key-data"`
			}
		}
	}
	if err := yaml.Unmarshal(text, &file); err != nil || len(file.Clusters) != 1 || len(file.Users) != 1 {
		return nil, fmt.Errorf("read %s: one cluster and one user are wanted: %w", kubeconfig, err)
	}
	cluster, user := file.Clusters[0].Cluster, file.Users[0].User
	certificate, err := tls.X509KeyPair(user.Certificate, user.Key)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", kubeconfig, err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(cluster.CA)
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2: true,
	}
	return &Kube{url: cluster.Server, http: &http.Client{Transport: transport}}, nil
}

// StatusError is an answer of the API server that is none.
type StatusError struct {
	Code int
	Text string
}

func (e *StatusError) Error() string { return fmt.Sprintf("%d: %s", e.Code, e.Text) }

// IsCode tells whether the API server answered with this code.
func IsCode(err error, code int) bool {
	status := (*StatusError)(nil)
	return errors.As(err, &status) && status.Code == code
}

func (k *Kube) send(ctx context.Context, method, path, kind string, body any) (*http.Response, error) {
	var content io.Reader = http.NoBody
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(encoded)
	}
	req, err := http.NewRequestWithContext(ctx, method, k.url+path, content)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", kind)
	resp, err := k.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= http.StatusBadRequest {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
		_ = resp.Body.Close()
		return nil, &StatusError{Code: resp.StatusCode, Text: fmt.Sprintf("%s %s: %s", method, path, text)}
	}
	return resp, nil
}

func (k *Kube) do(ctx context.Context, method, path, kind string, body any) (Object, error) {
	resp, err := k.send(ctx, method, path, kind, body)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var answer Object
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	return answer, nil
}

// Get reads an object or a list.
func (k *Kube) Get(ctx context.Context, path string) (Object, error) {
	return k.do(ctx, http.MethodGet, path, "", nil)
}

// Create makes an object. An object that is there already is no error.
func (k *Kube) Create(ctx context.Context, path string, obj Object) error {
	_, err := k.do(ctx, http.MethodPost, path+"?fieldManager="+Rival, "application/json", obj)
	if IsCode(err, http.StatusConflict) {
		return nil
	}
	return err
}

// Edit changes an object by a merge patch, and returns it as it is then.
func (k *Kube) Edit(ctx context.Context, path string, patch Object) (Object, error) {
	return k.do(ctx, http.MethodPatch, path+"?fieldManager="+Rival, "application/merge-patch+json", patch)
}

// Delete removes an object. An object that is gone is no error.
func (k *Kube) Delete(ctx context.Context, path string) error {
	_, err := k.do(ctx, http.MethodDelete, path, "application/json", nil)
	if IsCode(err, http.StatusNotFound) {
		return nil
	}
	return err
}

// Namespace makes a namespace.
func (k *Kube) Namespace(ctx context.Context, name string) error {
	return k.Create(ctx, "/api/v1/namespaces", Object{"apiVersion": "v1", "kind": "Namespace", "metadata": Object{"name": name}})
}

// List reads all objects of a path.
func (k *Kube) List(ctx context.Context, path string) ([]Object, error) {
	var all []Object
	for next := ""; ; {
		page, err := k.Get(ctx, path+"?limit=1000&continue="+next)
		if err != nil {
			return nil, err
		}
		for _, item := range list(page, "items") {
			all = append(all, item.(Object))
		}
		if next = text(page, "metadata", "continue"); next == "" {
			return all, nil
		}
	}
}

// Watch gives each change of an object, beginning with what it is now, until each says that it is enough.
func (k *Kube) Watch(ctx context.Context, path string, each func(Object) (enough bool)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	dir, name := path[:strings.LastIndexByte(path, '/')], path[strings.LastIndexByte(path, '/')+1:]
	watch := func() (*http.Response, error) {
		return k.send(ctx, http.MethodGet, dir+"?watch=true&fieldSelector=metadata.name%3D"+name, "", nil)
	}
	resp, err := watch()
	for IsCode(err, http.StatusTooManyRequests) { // an API server that has just started: its storage is not ready yet
		retry.Sleep(ctx, 100*time.Millisecond)
		resp, err = watch()
	}
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	for events := json.NewDecoder(resp.Body); ; {
		var event struct{ Object Object }
		if err := events.Decode(&event); err != nil {
			return fmt.Errorf("watch %s: %w", path, err)
		}
		if each(event.Object) {
			return nil
		}
	}
}

// each calls do n times, some calls at once.
func each(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for i := range n {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}

// field reads a nested field, nil if there is none.
func field(obj Object, path ...string) any {
	var at any = obj
	for _, name := range path {
		inner, ok := at.(Object)
		if !ok {
			return nil
		}
		at = inner[name]
	}
	return at
}

func text(obj Object, path ...string) string {
	s, _ := field(obj, path...).(string)
	return s
}

func list(obj Object, path ...string) []any {
	l, _ := field(obj, path...).([]any)
	return l
}
