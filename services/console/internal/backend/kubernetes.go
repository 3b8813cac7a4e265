package backend

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"fairlead.dev/platform/dialpolicy"
	"fairlead.dev/platform/kubename"
)

// serviceAccount is where Kubernetes puts the credentials of a pod.
const serviceAccount = "/var/run/secrets/kubernetes.io/serviceaccount"

// Kubernetes says where Secrets and ConfigMaps are. With an empty Server it is that of Credentials' kubeconfig, or the
// cluster that the console runs in. Credentials are token and ca.crt, or kubeconfig.
type Kubernetes struct {
	Server      string
	Namespaces  []string
	Credentials map[string]string
	// Addresses judges where Server, or that of the kubeconfig, leads to.
	Addresses *dialpolicy.Policy
}

type kubernetes struct {
	api        *api
	namespaces []string
	// token is asked for each time: that of a pod changes every hour. Empty: the client's certificate speaks for us.
	token func() (string, error)
}

// NewKubernetes returns Secrets and ConfigMaps of a cluster, as secret/<namespace>/<name> and
// configmap/<namespace>/<name>.
func NewKubernetes(at Kubernetes) (Backend, error) {
	k := &kubernetes{namespaces: at.Namespaces, token: func() (string, error) { return at.Credentials["token"], nil }}
	var err error
	switch {
	case at.Credentials["kubeconfig"] != "":
		return k, k.useKubeconfig(at)
	case at.Server == "":
		return k, k.useServiceAccount()
	case at.Credentials["token"] == "":
		return nil, errors.New("its Secret has neither token nor kubeconfig")
	}
	k.api, err = newAPI(at.Server, at.Credentials["ca.crt"], at.Addresses)
	return k, err
}

func (k *kubernetes) useServiceAccount() error {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return errors.New("the console does not run in a cluster: set kubernetes.server and kubernetes.secret")
	}
	ca, err := os.ReadFile(filepath.Join(serviceAccount, "ca.crt"))
	if err != nil {
		return fmt.Errorf("read service account: %w", err)
	}
	k.token = func() (string, error) {
		token, err := os.ReadFile(filepath.Join(serviceAccount, "token"))
		if err != nil {
			return "", fmt.Errorf("read service account: %w", err)
		}
		return strings.TrimSpace(string(token)), nil
	}
	// Kubernetes says where its API is, and not the backend's author.
	anywhere := dialpolicy.New([]netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")})
	k.api, err = newAPI("https://"+net.JoinHostPort(host, port), string(ca), anywhere)
	return err
}

// kubeconfig is what is known of one. Fields that name files or programs are left out: they would be the console's.
type kubeconfig struct {
	CurrentContext string `json:"current-context"`
	Contexts       []struct {
		Name    string
		Context struct{ Cluster, User string }
	}
	Clusters []struct {
		Name    string
		Cluster struct {
			Server string
			CA     []byte `json:"certificate-authority-data"`
		}
	}
	Users []struct {
		Name string
		User struct {
			Token string
			Cert  []byte `json:"client-certificate-data"`
			Key   []byte `json:"client-key-data"`
		}
	}
}

func (k *kubernetes) useKubeconfig(at Kubernetes) error {
	var c kubeconfig
	if err := yaml.Unmarshal([]byte(at.Credentials["kubeconfig"]), &c); err != nil {
		return errors.New("kubeconfig of its Secret: is not YAML") // the decoder may quote it
	}
	context := slices.IndexFunc(c.Contexts, func(v struct {
		Name    string
		Context struct{ Cluster, User string }
	},
	) bool {
		return v.Name == c.CurrentContext
	})
	if context < 0 {
		return errors.New("kubeconfig of its Secret: has no context of the name of its current-context")
	}
	of := c.Contexts[context].Context
	server, ca, token := at.Server, "", ""
	for _, v := range c.Clusters {
		if v.Name == of.Cluster {
			ca = string(v.Cluster.CA)
			if server == "" {
				server = v.Cluster.Server
			}
		}
	}
	var certs []tls.Certificate
	for _, v := range c.Users {
		if v.Name != of.User {
			continue
		}
		if token = v.User.Token; len(v.User.Cert) > 0 {
			cert, err := tls.X509KeyPair(v.User.Cert, v.User.Key)
			if err != nil {
				return errors.New("kubeconfig of its Secret: client-certificate-data and client-key-data do not fit together")
			}
			certs = append(certs, cert)
		}
	}
	if token == "" && len(certs) == 0 {
		return errors.New("kubeconfig of its Secret: its user has neither token nor client-certificate-data: files and programs are not known here")
	}
	k.token = func() (string, error) { return token, nil }
	var err error
	k.api, err = newAPI(server, ca, at.Addresses, certs...)
	return err
}

// Read implements Backend.
func (k *kubernetes) Read(ctx context.Context, path string) (Values, error) {
	parts := strings.Split(path, "/")
	if len(parts) != 3 || parts[0] != "secret" && parts[0] != "configmap" || !kubename.IsObject(parts[1]) || !kubename.IsObject(parts[2]) {
		return nil, badPath("secret/<namespace>/<name> or configmap/<namespace>/<name>")
	}
	if len(k.namespaces) > 0 && !slices.Contains(k.namespaces, parts[1]) {
		return nil, fmt.Errorf("%w: namespace %q is not among kubernetes.namespaces of the backend", ErrPath, parts[1])
	}
	var object struct {
		Kind, Reason string
		Data         map[string]string
	}
	status, err := k.get(ctx, []string{"api/v1/namespaces", parts[1], parts[0] + "s", parts[2]}, &object)
	switch {
	case err != nil:
		return nil, err
	case status == http.StatusNotFound && object.Kind == "Status" && object.Reason == "NotFound":
		return nil, ErrNotFound
	case status != http.StatusOK:
		return nil, k.api.refused(status, "read "+parts[0]+" "+parts[2]+" of namespace "+parts[1])
	}
	values := flat{values: Values{}}
	for key, value := range object.Data {
		if parts[0] == "secret" {
			plain, err := base64.StdEncoding.DecodeString(value)
			if err != nil {
				return nil, fmt.Errorf("key %q: is not base64", key)
			}
			value = string(plain)
		}
		if err := values.put(key, value); err != nil {
			return nil, err
		}
	}
	return values.values, nil
}

// Check implements Backend.
func (k *kubernetes) Check(ctx context.Context) error {
	var version struct{ GitVersion string }
	status, err := k.get(ctx, []string{"version"}, &version)
	if err == nil && status != http.StatusOK {
		err = k.api.refused(status, "see its version")
	}
	return err
}

func (k *kubernetes) get(ctx context.Context, path []string, out any) (int, error) {
	token, err := k.token()
	if err != nil {
		return 0, err
	}
	header := http.Header{}
	if token != "" {
		header.Set("Authorization", "Bearer "+token)
	}
	return k.api.call(ctx, http.MethodGet, path, header, nil, out)
}
