package nodes_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/cli"
	"helm.sh/helm/v4/pkg/kube"
	v1 "helm.sh/helm/v4/pkg/release/v1"
	"sigs.k8s.io/yaml"
)

// helm is the client library of Helm at one namespace of the cluster: what `helm install --wait`, `helm test` and `helm
// uninstall --wait` do.
type helm struct {
	config    *action.Configuration
	namespace string
}

func newHelm(kubeconfig, namespace string) (*helm, error) {
	settings := cli.New()
	settings.KubeConfig = kubeconfig
	settings.SetNamespace(namespace)
	config := action.NewConfiguration(action.ConfigurationSetLogger(slog.DiscardHandler))
	if err := config.Init(settings.RESTClientGetter(), namespace, "secrets"); err != nil {
		return nil, fmt.Errorf("reach the cluster: %w", err)
	}
	return &helm{config, namespace}, nil
}

// The charts of this commit.
const (
	hubChart   = "../../deploy/charts/hub"
	agentChart = "../../deploy/charts/agent"
)

// install installs a chart and waits until all of it is ready.
func (h *helm) install(ctx context.Context, release, chart, values string, limit time.Duration) error {
	loaded, err := loader.Load(chart)
	if err != nil {
		return err
	}
	var set map[string]any
	if err := yaml.Unmarshal([]byte(values), &set); err != nil {
		return err
	}
	install := action.NewInstall(h.config)
	install.ReleaseName, install.Namespace, install.CreateNamespace = release, h.namespace, true
	install.WaitStrategy, install.Timeout = kube.StatusWatcherStrategy, limit
	if _, err := install.RunWithContext(ctx, loaded, set); err != nil {
		return fmt.Errorf("install the chart %s: %w", chart, err)
	}
	return nil
}

// upgrade changes the values of a release, and waits until all of it is ready.
func (h *helm) upgrade(ctx context.Context, release, chart, values string, limit time.Duration) error {
	loaded, err := loader.Load(chart)
	if err != nil {
		return err
	}
	var set map[string]any
	if err := yaml.Unmarshal([]byte(values), &set); err != nil {
		return err
	}
	upgrade := action.NewUpgrade(h.config)
	upgrade.Namespace, upgrade.WaitStrategy, upgrade.Timeout = h.namespace, kube.StatusWatcherStrategy, limit
	if _, err := upgrade.RunWithContext(ctx, release, loaded, set); err != nil {
		return fmt.Errorf("upgrade %s: %w", release, err)
	}
	return nil
}

// rollback leads a release back to one of its revisions, and waits until all of it is ready.
func (h *helm) rollback(release string, revision int, limit time.Duration) error {
	rollback := action.NewRollback(h.config)
	rollback.Version, rollback.WaitStrategy, rollback.Timeout = revision, kube.StatusWatcherStrategy, limit
	if err := rollback.Run(release); err != nil {
		return fmt.Errorf("roll %s back to revision %d: %w", release, revision, err)
	}
	return nil
}

// test does what `helm test` does; the error has the logs of the pods.
func (h *helm) test(release string, limit time.Duration) error {
	testing := action.NewReleaseTesting(h.config)
	testing.Namespace, testing.Timeout = h.namespace, limit
	tested, shutdown, err := testing.Run(release)
	if err != nil {
		var logs strings.Builder
		if ran, ok := tested.(*v1.Release); ok {
			err = errors.Join(err, testing.GetPodLogs(&logs, ran))
		}
		err = fmt.Errorf("helm test %s: %w\n%s", release, err, logs.String())
	}
	return errors.Join(err, shutdown())
}

func (h *helm) uninstall(release string, limit time.Duration) error {
	uninstall := action.NewUninstall(h.config)
	uninstall.WaitStrategy, uninstall.Timeout = kube.StatusWatcherStrategy, limit
	if _, err := uninstall.Run(release); err != nil {
		return fmt.Errorf("uninstall %s: %w", release, err)
	}
	return nil
}
