package charts_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	chartutil "helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/engine"
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/yaml"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
)

// reference is what Helm or kubectl would send.
type reference struct {
	objects []*unstructured.Unstructured
	hooks   []*unstructured.Unstructured
}

// referenceOf renders a version of a case with the libraries of Helm, in the order of its action package, or with
// kubectl's kustomize.
func (h *harness) referenceOf(ctx context.Context, c *Case, dir string, spec *consolev1.ServiceSpec,
	revision int,
) (reference, error) {
	root := filepath.Join(dir, filepath.FromSlash(c.Path), filepath.FromSlash(spec.GetRender().GetPath()))
	if _, err := os.Stat(filepath.Join(root, "Chart.yaml")); err == nil {
		return h.helm(ctx, c, dir, root, spec, revision)
	}
	text, err := h.world.Kubectl(ctx, "", "kustomize", root)
	if err != nil {
		return reference{}, err
	}
	objects, err := parse(text)
	return reference{objects: objects}.others(), err
}

func (h *harness) helm(ctx context.Context, c *Case, dir, root string, spec *consolev1.ServiceSpec,
	revision int,
) (reference, error) {
	chart, err := loader.LoadDir(root)
	if err != nil {
		return reference{}, err
	}
	values := map[string]any{}
	for _, name := range spec.GetRender().GetHelm().GetValuesFiles() {
		text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(c.Path), filepath.FromSlash(name)))
		if err != nil {
			return reference{}, err
		}
		more, err := loader.LoadValues(bytes.NewReader(text))
		if err != nil {
			return reference{}, err
		}
		values = loader.MergeMaps(values, more)
	}
	more, err := loader.LoadValues(strings.NewReader(spec.GetRender().GetHelm().GetValues()))
	if err != nil {
		return reference{}, err
	}
	values = loader.MergeMaps(values, more)
	if err := util.ProcessDependencies(chart, values); err != nil {
		return reference{}, err
	}
	capabilities, err := h.capabilities()
	if err != nil {
		return reference{}, err
	}
	name := spec.GetRender().GetHelm().GetReleaseName()
	if name == "" {
		name = c.Name
	}
	if wanted := spec.GetRender().GetHelm().GetKubeVersion(); wanted != "" {
		version, err := common.ParseKubeVersion(wanted)
		if err != nil {
			return reference{}, err
		}
		capabilities.KubeVersion = *version
	}
	capabilities.APIVersions = append(capabilities.APIVersions, spec.GetRender().GetHelm().GetApiVersions()...)
	top, err := chartutil.ToRenderValuesWithSchemaValidation(chart, values, common.ReleaseOptions{
		Name: name, Namespace: c.Name, Revision: revision, IsInstall: revision == 1, IsUpgrade: revision > 1,
	}, capabilities, spec.GetRender().GetHelm().GetSkipSchemaValidation())
	if err != nil {
		return reference{}, err
	}
	helm := engine.New(h.config)
	files, err := helm.RenderWithContext(ctx, chart, top)
	if err != nil {
		return reference{}, err
	}
	for name := range files {
		if strings.HasSuffix(name, "NOTES.txt") {
			delete(files, name)
		}
	}
	hooks, manifests, err := releaseutil.SortManifests(files, nil, releaseutil.InstallOrder)
	if err != nil {
		return reference{}, err
	}
	var ref reference
	for _, crd := range chart.CRDObjects() {
		if ref.objects, err = add(ref.objects, string(crd.File.Data)+"\n"); err != nil {
			return reference{}, fmt.Errorf("%s: %w", crd.Filename, err)
		}
	}
	for _, one := range manifests {
		// A release's manifest has one more newline after each document: `helm get manifest` shows it.
		if ref.objects, err = add(ref.objects, one.Content+"\n"); err != nil {
			return reference{}, fmt.Errorf("%s: %w", one.Name, err)
		}
	}
	for _, one := range hooks {
		if ref.hooks, err = add(ref.hooks, one.Manifest); err != nil {
			return reference{}, fmt.Errorf("%s: %w", one.Path, err)
		}
	}
	return ref.others(), nil
}

// others takes what is a hook for Argo CD and Fairlead out of the ordinary objects.
func (ref reference) others() reference {
	ordinary := slices.DeleteFunc(slices.Clone(ref.objects), func(obj *unstructured.Unstructured) bool {
		_, argo := obj.GetAnnotations()["argocd.argoproj.io/hook"]
		_, own := obj.GetAnnotations()["fairlead.dev/hook"]
		if argo || own {
			ref.hooks = append(ref.hooks, obj)
		}
		return argo || own
	})
	ref.objects = ordinary
	return ref
}

func add(to []*unstructured.Unstructured, text string) ([]*unstructured.Unstructured, error) {
	more, err := parse(text)
	return append(to, more...), err
}

// capabilities are the cluster's, as Helm's action package has them.
func (h *harness) capabilities() (*common.Capabilities, error) {
	groups, resources, err := h.discovery.ServerGroupsAndResources()
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		return nil, err
	}
	version, err := h.discovery.ServerVersion()
	if err != nil {
		return nil, err
	}
	kube, err := common.ParseKubeVersion(version.GitVersion)
	if err != nil {
		return nil, err
	}
	var served common.VersionSet
	for _, group := range groups {
		for _, version := range group.Versions {
			served = append(served, version.GroupVersion)
		}
	}
	for _, list := range resources {
		for _, one := range list.APIResources {
			if id := list.GroupVersion + "/" + one.Kind; !slices.Contains(served, id) {
				served = append(served, id)
			}
		}
	}
	capabilities := common.DefaultCapabilities.Copy()
	capabilities.KubeVersion, capabilities.APIVersions = *kube, served
	return capabilities, nil
}

// parse reads documents as kubectl and Helm do before they send them; Lists are taken apart.
func parse(text string) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for reader := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text))); ; {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		converted, err := yaml.YAMLToJSON(document)
		if err != nil {
			return nil, err
		}
		if string(converted) == "null" {
			continue
		}
		obj := &unstructured.Unstructured{}
		if err := obj.UnmarshalJSON(converted); err != nil {
			return nil, fmt.Errorf("%w in %s", err, converted)
		}
		if !obj.IsList() {
			objects = append(objects, obj)
			continue
		}
		if err := obj.EachListItem(func(item runtime.Object) error {
			objects = append(objects, item.(*unstructured.Unstructured))
			return nil
		}); err != nil {
			return nil, err
		}
	}
}
