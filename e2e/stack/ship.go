package stack

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"fairlead.dev/e2e/process"
)

// Repository is a clone of the stack's repository to commit in and push from.
type Repository struct{ dir string }

// Dir is the work tree.
func (r *Repository) Dir() string { return r.dir }

// Clone clones the stack's repository, as a developer would.
func (s *Stack) Clone(ctx context.Context) (*Repository, error) {
	dir, err := os.MkdirTemp(s.Dir, "clone-")
	if err != nil {
		return nil, err
	}
	if _, err := process.Run(ctx, nil, "", "git", "clone", "--quiet", s.GitURL, dir); err != nil {
		return nil, err
	}
	return &Repository{dir: dir}, nil
}

func (r *Repository) git(ctx context.Context, args ...string) (string, error) {
	identity := []string{"-C", r.dir, "-c", "user.name=e2e", "-c", "user.email=e2e@example.com"}
	return process.Run(ctx, nil, "", "git", append(identity, args...)...)
}

// Push commits files (path -> content; empty content removes the file) and pushes the commit.
func (r *Repository) Push(ctx context.Context, message string, files map[string]string) (string, error) {
	for name, content := range files {
		full := filepath.Join(r.dir, name)
		if content == "" {
			if err := os.Remove(full); err != nil {
				return "", err
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(full), 0o700); err != nil {
			return "", err
		}
		if err := os.WriteFile(full, []byte(content), 0o600); err != nil {
			return "", err
		}
	}
	for _, args := range [][]string{{"add", "-A"}, {"commit", "--quiet", "-m", message}} {
		if _, err := r.git(ctx, args...); err != nil {
			return "", err
		}
	}
	// Other tests push to the same branch.
	err := process.Await(ctx, "the push is taken", func(ctx context.Context) error {
		if _, err := r.git(ctx, "pull", "--quiet", "--rebase"); err != nil {
			return err
		}
		_, err := r.git(ctx, "push", "--quiet", "origin", "HEAD")
		return err
	})
	if err != nil {
		return "", err
	}
	commit, err := r.git(ctx, "rev-parse", "HEAD")
	return strings.TrimSpace(commit), err
}

// includes fails unless commit is in the history of head.
func (r *Repository) includes(ctx context.Context, head, commit string) error {
	if _, err := r.git(ctx, "fetch", "--quiet"); err != nil {
		return err
	}
	if _, err := r.git(ctx, "merge-base", "--is-ancestor", commit, head); err != nil {
		return fmt.Errorf("commit %.8s is applied: %w", head, err)
	}
	return nil
}

// Ship is a service per cluster over one folder of the repository.
type Ship struct {
	Folder    string
	Namespace string
	stack     *Stack
	repo      *Repository
	pushes    int
}

// Pushes counts the markers that were pushed.
func (s *Ship) Pushes() int { return s.pushes }

// NewShip pushes a first version of a folder and tells the hub to keep it in every cluster.
func (s *Stack) NewShip(ctx context.Context, folder, namespace string) (*Ship, error) {
	repo, err := s.Clone(ctx)
	if err != nil {
		return nil, err
	}
	ship := &Ship{Folder: folder, Namespace: namespace, stack: s, repo: repo}
	if _, err := ship.Push(ctx, "first"); err != nil {
		return nil, err
	}
	var resources strings.Builder
	for _, c := range s.Clusters {
		fmt.Fprintf(&resources, "apiVersion: fairlead.dev/v1\nkind: Service\nmetadata: {name: %s}\nspec: {source: sample, path: %s, cluster: %s, namespace: %s}\n---\n",
			ship.Service(c), folder, c.Name, namespace)
	}
	if _, err := s.FairleadStdin(ctx, resources.String(), "apply", "-f", "-"); err != nil {
		return nil, err
	}
	return ship, nil
}

// Service names the service in a cluster.
func (s *Ship) Service(c Cluster) string { return s.Folder + "-" + c.Name }

// Push commits a version of the folder: a ConfigMap that holds the marker, and a Deployment whose
// generation counts how often it was really changed.
func (s *Ship) Push(ctx context.Context, marker string) (string, error) {
	s.pushes++
	return s.repo.Push(ctx, "marker "+marker, map[string]string{
		s.Folder + "/namespace.yaml": fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata: {name: %s}\n", s.Namespace),
		s.Folder + "/config.yaml":    fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: marker}\ndata: {marker: %q}\n", marker),
		s.Folder + "/web.yaml": fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: {app: web}
      annotations: {marker: %q}
    spec:
      containers: [{name: web, image: example.com/web:1}]
`, marker),
	})
}

// PushFiles commits other files below the folder.
func (s *Ship) PushFiles(ctx context.Context, message string, files map[string]string) (string, error) {
	under := make(map[string]string, len(files))
	for name, content := range files {
		under[s.Folder+"/"+name] = content
	}
	return s.repo.Push(ctx, message, under)
}

// WaitApplied waits until every cluster holds the marker.
func (s *Ship) WaitApplied(ctx context.Context, marker string) error {
	for _, c := range s.stack.Clusters {
		err := process.Await(ctx, fmt.Sprintf("marker %q is in cluster %s", marker, c.Name), func(ctx context.Context) error {
			got, err := s.stack.Kubectl(ctx, c.Kubeconfig, "-n", s.Namespace, "get", "configmap", "marker", "-o", "jsonpath={.data.marker}")
			if err == nil && got != marker {
				err = fmt.Errorf("the marker is %q", got)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// WaitGone waits until an object of the folder is in no cluster any more.
func (s *Ship) WaitGone(ctx context.Context, kind, name string) error {
	for _, c := range s.stack.Clusters {
		err := process.Await(ctx, fmt.Sprintf("%s %s is gone from cluster %s", kind, name, c.Name), func(ctx context.Context) error {
			got, err := s.stack.Kubectl(ctx, c.Kubeconfig, "-n", s.Namespace, "get", kind, name, "--ignore-not-found", "-o", "name")
			if err == nil && got != "" {
				err = fmt.Errorf("%s is still there", strings.TrimSpace(got))
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// WaitHealthy waits until the hub says that every cluster has applied the commit, or a later one of
// somebody else, and is healthy.
func (s *Ship) WaitHealthy(ctx context.Context, commit string) error {
	for _, c := range s.stack.Clusters {
		err := process.Await(ctx, fmt.Sprintf("service %s is healthy at %.8s", s.Service(c), commit), func(ctx context.Context) error {
			svc, err := s.stack.Service(ctx, s.Service(c))
			if err != nil {
				return err
			}
			st := svc.Status
			if st.State != "healthy" {
				return fmt.Errorf("state %s: %s", st.State, st.StateMessage)
			}
			return s.repo.includes(ctx, st.Cluster.Report.AppliedCommit, commit)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Generations returns how often the Deployment of the folder was really changed in each cluster.
func (s *Ship) Generations(ctx context.Context) (map[string]int, error) {
	counts := make(map[string]int, len(s.stack.Clusters))
	for _, c := range s.stack.Clusters {
		out, err := s.stack.Kubectl(ctx, c.Kubeconfig, "-n", s.Namespace, "get", "deployment", "web", "-o", "jsonpath={.metadata.generation}")
		if err != nil {
			return nil, err
		}
		if counts[c.Name], err = strconv.Atoi(strings.TrimSpace(out)); err != nil {
			return nil, err
		}
	}
	return counts, nil
}

// ReadBack reads the marker through the tunnel with the kubeconfig that the CLI wrote.
func (s *Ship) ReadBack(ctx context.Context, marker string) error {
	for _, c := range s.stack.Clusters {
		kubeconfig, err := s.stack.TunnelKubeconfig(ctx, c.Name)
		if err != nil {
			return err
		}
		got, err := s.stack.Kubectl(ctx, kubeconfig, "-n", s.Namespace, "get", "configmap", "marker", "-o", "jsonpath={.data.marker}")
		if err != nil {
			return err
		}
		if got != marker {
			return fmt.Errorf("through the tunnel to %s the marker is %q, not %q", c.Name, got, marker)
		}
	}
	return nil
}

// ApplyByHand applies the folder to every cluster with kubectl, as a peer to compare with.
func (s *Ship) ApplyByHand(ctx context.Context) error {
	for _, c := range s.stack.Clusters {
		_, err := s.stack.Kubectl(ctx, c.Kubeconfig, "apply", "--server-side", "--force-conflicts", "--field-manager", "by-hand",
			"--namespace", s.Namespace, "-f", filepath.Join(s.repo.dir, s.Folder))
		if err != nil {
			return err
		}
	}
	return nil
}

// Deliver pushes a marker and follows it into every cluster and back; it returns how long the
// commit took to be applied everywhere.
func (s *Ship) Deliver(ctx context.Context, marker string) (time.Duration, error) {
	commit, err := s.Push(ctx, marker)
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	if err := s.WaitApplied(ctx, marker); err != nil {
		return 0, err
	}
	took := time.Since(begin)
	if err := s.WaitHealthy(ctx, commit); err != nil {
		return 0, err
	}
	return took, s.ReadBack(ctx, marker)
}
