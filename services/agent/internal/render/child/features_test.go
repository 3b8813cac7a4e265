package child_test

import (
	"maps"
	"path"
	"testing"

	"fairlead.dev/services/agent/internal/desired"
)

// The features that overlays use most, with bases and files beside the service's folder.
func TestKustomizeFeaturesAreThoseOfADisk(t *testing.T) {
	t.Parallel()
	const deployment = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {tier: front}, annotations: {old: 'yes'}}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: web, image: 'registry.example.com/web:1', args: [$(HOST)], envFrom: [{configMapRef: {name: settings}}], env: [{name: A, value: a}]}
      - {name: side, image: side}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: x.example.com/v1
kind: Boat
metadata: {name: boat}
spec: {serviceName: web, crew: 1}
`
	base := map[string]string{
		"apps/base/kustomization.yaml":   "resources: [all.yaml]\nconfigMapGenerator: [{name: settings, literals: [a=b]}]\n",
		"apps/base/all.yaml":             deployment,
		"apps/remote/kustomization.yaml": "resources: ['https://example.com/remote.yaml', 'github.com/example/x//deploy?ref=v1']\n",
		"apps/charts/kustomization.yaml": "helmCharts: [{name: redis, repo: 'https://charts.example.com', version: 1.0.0}]\n",
	}
	for name, overlay := range map[string]map[string]string{
		"57: patches by target, by a regular expression, by kind": {
			"kustomization.yaml": `resources: [../../base]
patches:
- {path: ../../patches/replicas.yaml, target: {kind: Deployment, name: 'w.*', labelSelector: tier=front}}
- {patch: '[{"op": "replace", "path": "/spec/crew", "value": 5}]', target: {group: x.example.com, kind: Boat}}
- {path: ../../patches/strategic.yaml}
`, "../../patches/replicas.yaml": "- {op: replace, path: /spec/replicas, value: 3}\n- {op: remove, path: /metadata/annotations/old}\n",
			"../../patches/strategic.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {template: {spec: {containers: [{name: side, $patch: delete}, {name: web, env: [{name: B, value: b}]}]}}}\n",
		},
		"57: $patch: delete": {
			"kustomization.yaml": "resources: [../../base]\npatches:\n- patch: |-\n    $patch: delete\n    apiVersion: v1\n    kind: Service\n    metadata: {name: web}\n",
		},
		"58: images, prefixes, labels": {"kustomization.yaml": `resources: [../../base]
namePrefix: dev-
nameSuffix: '-1'
namespace: dev
images: [{name: registry.example.com/web, newName: mirror.example.com/web, newTag: '2'}, {name: side, digest: 'sha256:24a0c4b4a4c0eb97a1aabb8e29f18e917d05abfe1b7a7c07857230879ce7d3d3'}]
replicas: [{name: web, count: 4}]
commonLabels: {stage: dev}
commonAnnotations: {by: test}
labels: [{pairs: {part: front}, includeTemplates: true}]
`},
		"59: generators": {"kustomization.yaml": `resources: [../../base]
configMapGenerator:
- {name: settings, behavior: merge, literals: [c=d], files: [../../config/app.conf, other=../../config/app.conf]}
- {name: fixed, envs: [../../config/env], options: {disableNameSuffixHash: true, labels: {x: 'y'}}}
secretGenerator: [{name: s, files: [../../config/app.conf], type: Opaque}]
generatorOptions: {annotations: {made: 'yes'}}
`, "../../config/app.conf": "x=1\n", "../../config/env": "A=b\n"},
		"60: components, replacements, bases, old patches, vars": {
			"kustomization.yaml": `bases: [../../base]
components: [../../components/scale]
replacements:
- path: ../../replacements.yaml
patchesStrategicMerge: [../../patches/crew.yaml]
patchesJson6902: [{target: {version: v1, kind: Service, name: web}, path: ../../patches/port.yaml}]
vars: [{name: HOST, objref: {kind: Service, name: web, apiVersion: v1}, fieldref: {fieldpath: metadata.name}}]
namePrefix: dev-
`, "../../components/scale/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nreplicas: [{name: web, count: 7}]\n",
			"../../replacements.yaml": "source: {kind: Boat, name: boat, fieldPath: metadata.name}\ntargets: [{select: {kind: Deployment}, fieldPaths: [metadata.annotations.boat], options: {create: true}}]\n",
			"../../patches/crew.yaml": "apiVersion: x.example.com/v1\nkind: Boat\nmetadata: {name: boat}\nspec: {crew: 9}\n",
			"../../patches/port.yaml": "- {op: replace, path: /spec/ports/0/port, value: 81}\n",
		},
		"61: configurations, transformers, generators, crds, openapi": {
			"kustomization.yaml": `resources: [../../base]
namePrefix: dev-
configurations: [../../names.yaml]
transformers: [../../transformers, ../../annotate.yaml]
generators: [../../generate.yaml]
`, "../../names.yaml": "nameReference:\n- kind: Service\n  fieldSpecs: [{kind: Boat, path: spec/serviceName}]\n",
			"../../transformers/kustomization.yaml": "resources: [t.yaml]\n",
			"../../transformers/t.yaml":             "apiVersion: builtin\nkind: PatchTransformer\nmetadata: {name: t}\ntarget: {kind: Boat}\npath: ../../patches/by-plugin.yaml\n",
			"../../patches/by-plugin.yaml":          "- {op: add, path: /spec/sail, value: red}\n",
			"../../annotate.yaml":                   "apiVersion: builtin\nkind: AnnotationsTransformer\nmetadata: {name: a}\nannotations: {seen: 'yes'}\nfieldSpecs: [{path: metadata/annotations, create: true}]\n",
			"../../generate.yaml":                   "apiVersion: builtin\nkind: ConfigMapGenerator\nmetadata: {name: g}\nname: generated\nfiles: [../../config/app.conf]\n",
			"../../config/app.conf":                 "x=1\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const folder = "apps/overlays/dev"
			files := maps.Clone(base)
			for name, content := range overlay {
				files[path.Join(folder, name)] = content
			}
			want, err := onDisk(t, folder, files)
			if err != nil {
				t.Fatal(err)
			}
			got, err := runPacked(t, desired.Service{Name: "shop", Path: folder}, packFor(t, folder, files), nil)
			if err != nil || !maps.Equal(got, want) {
				t.Errorf("got %v, %v\nwant %v", got, err, want)
			}
		})
	}
}
