package up

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"fairlead.dev/platform/durable"
)

// readiness is what --ready-file gets: a program that started us learns where everything is.
type readiness struct {
	DataDir string    `json:"dataDir"`
	Config  string    `json:"config"`  // Of the CLI: FAIRLEAD_CONFIG.
	Context string    `json:"context"` // In it.
	Hub     urls      `json:"hub"`
	Pages   string    `json:"pages"`
	CAFile  string    `json:"caFile"`
	Key     string    `json:"hubSecretFile"`
	Git     string    `json:"git"` // URL of the sample repository.
	Source  string    `json:"source"`
	Cluster []cluster `json:"clusters"`
	Seconds float64   `json:"seconds"` // How long it took.
}

// announceReady tells people, and programs, that everything is up.
func (u *up) announceReady(clusters []cluster, previous string) error {
	if _, err := fmt.Fprint(u.options.Stdout, u.summaryText(clusters, previous)); err != nil {
		return err
	}
	if u.options.ReadyFile == "" {
		return nil
	}
	text, err := json.MarshalIndent(readiness{
		DataDir: u.data.path, Config: u.options.Store.Path(), Context: u.context, Hub: u.hub.urls,
		Pages: u.hub.urls.Front, CAFile: u.hub.files.CAFile, Key: u.hub.secretFile,
		Git: u.git.URL(sampleName), Source: sampleName, Cluster: working(clusters), Seconds: time.Since(u.began).Seconds(),
	}, "", "  ")
	if err != nil {
		return fmt.Errorf("ready file: %w", err)
	}
	path, err := filepath.Abs(u.options.ReadyFile)
	if err == nil {
		err = durable.WriteFile(path, append(text, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("ready file: %w", err)
	}
	return nil
}

// summaryText is what runs where, and what to do with it.
func (u *up) summaryText(clusters []cluster, previous string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nFairlead is up after %.1f s.\n\n", time.Since(u.began).Seconds())
	for _, p := range u.hub.parts {
		fmt.Fprintf(&b, "  %-12s %s\n", p.name, p.url)
	}
	fmt.Fprintf(&b, "  %-12s %s\n", "git", u.git.URL(sampleName))
	fmt.Fprintf(&b, "  %-12s %s (in a browser; this link logs you in, once, within 10 minutes; later: fairlead open)\n",
		"pages", u.link)
	for _, c := range clusters {
		if c.fault != nil {
			fmt.Fprintf(&b, "  %-12s %v\n", "left out", c.fault)
			continue
		}
		where := c.Kubeconfig
		if c.Context != "" {
			where = "context " + c.Context + " of " + where
		}
		fmt.Fprintf(&b, "  %-12s %s%s, with an agent (%s)\n", "cluster", c.Name, c.kindText(), where)
	}
	if u.pretended != "" {
		fmt.Fprintf(&b, "  %-12s pretended, nothing runs in them: %s\n", "pods", u.pretended)
	}
	fmt.Fprintf(&b, "  %-12s %s (logs in %s)\n", "data", u.data.path, u.data.joinPath("logs"))
	if previous != "" && previous != u.context {
		fmt.Fprintf(&b, "\nContext %q is the current one until this ends; then it is %q again.\n", u.context, previous)
	}
	if len(clusters) > 0 && !clusters[0].local && !u.options.BindAdmins {
		b.WriteString("\nNobody may do anything in your clusters through the tunnel until their RBAC says so: bind group\nfairlead:admins, or start with --bind-admins.\n")
	}
	fmt.Fprintf(&b, "\nTry in another terminal:\n\n%s\nCtrl-C ends everything; the data stays.\n",
		u.firstSteps(working(clusters)))
	return b.String()
}

// firstSteps are a few commands that work as they stand here.
func (u *up) firstSteps(clusters []cluster) string {
	fairlead, kubectl := selfPath(), u.kubectlCommand()
	var b strings.Builder
	if file := os.Getenv("FAIRLEAD_CONFIG"); file != "" {
		fmt.Fprintf(&b, "  export FAIRLEAD_CONFIG=%s\n", u.options.Store.Path())
	}
	fmt.Fprintf(&b, "  %s get services\n", fairlead)
	fmt.Fprintf(&b, "  git clone %s   # change %s, commit, push\n", u.git.URL(sampleName), samplePath)
	fmt.Fprintf(&b, "  git push %s HEAD   # of a repository of yours: the first push makes it here\n",
		u.git.URL("NAME"))
	if len(clusters) == 0 {
		fmt.Fprintf(&b, "  %s cluster join-token NAME   # after describing the cluster with `fairlead apply`\n", fairlead)
		return b.String()
	}
	cluster := clusters[0].Name
	if clusters[0].RealPods {
		fmt.Fprintf(&b, "  %s logs %s -n default deployment/hello --follow\n", fairlead, cluster)
		fmt.Fprintf(&b, "  %s exec %s -n default deployment/hello -- /hello say\n", fairlead, cluster)
	}
	fmt.Fprintf(&b, "  %s kubeconfig %s --output-file %s.kubeconfig && %s --kubeconfig %s.kubeconfig get pods\n",
		fairlead, cluster, cluster, kubectl, cluster)
	return b.String()
}

// kubectlCommand is how to call a kubectl from the current folder: the one that `make up` puts beside this
// program, as new as the local clusters; or the person's; or the one inside kubelocal.
func (u *up) kubectlCommand() string {
	if path, err := os.Executable(); err == nil {
		if beside, err := exec.LookPath(filepath.Join(filepath.Dir(path), "kubectl")); err == nil {
			return callPath(beside)
		}
	}
	if _, err := exec.LookPath("kubectl"); err == nil {
		return "kubectl"
	}
	path, args := u.findKubectl()
	return strings.Join(append([]string{path}, args...), " ")
}

// selfPath is how to call this program from the current folder.
func selfPath() string {
	path, err := os.Executable()
	if err != nil {
		return "fairlead"
	}
	return callPath(path)
}

// callPath returns how to call a program from the current folder: by its name if it is in PATH, by a relative
// path if it is below.
func callPath(path string) string {
	name := filepath.Base(path)
	if found, err := exec.LookPath(name); err == nil && found == path {
		return name
	}
	if cwd, err := os.Getwd(); err == nil {
		if relative, err := filepath.Rel(cwd, path); err == nil && !strings.HasPrefix(relative, "..") &&
			strings.Contains(relative, string(filepath.Separator)) {
			return relative
		}
	}
	return path
}
