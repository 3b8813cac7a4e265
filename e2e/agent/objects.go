package agent

import (
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// widgets is the group of the custom resources that the load is made of.
const widgets = "load.fairlead.dev"

// configMap is a ConfigMap of half a KiB. A different value makes it a changed one.
func configMap(namespace, name, value string) Object {
	return Object{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": Object{"name": name, "namespace": namespace, "labels": Object{"app": "load"}},
		"data": Object{"value": value, "settings.ini": strings.Repeat("key = a value of some length\n", 15)},
	}
}

// deployment is a Deployment; without replicas nothing runs because of it.
func deployment(namespace, name, value string, replicas int) Object {
	labels := Object{"app": name}
	return Object{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": Object{"name": name, "namespace": namespace, "labels": labels},
		"spec": Object{
			"replicas": replicas, "selector": Object{"matchLabels": labels},
			"template": Object{
				"metadata": Object{"labels": labels, "annotations": Object{"value": value}},
				"spec": Object{"containers": []any{Object{
					"name": "web", "image": "example.com/web:1", "ports": []any{Object{"name": "http", "containerPort": 8080}},
					"env":       []any{Object{"name": "MODE", "value": "production"}, Object{"name": "LEVEL", "value": "info"}},
					"resources": Object{"requests": Object{"cpu": "10m", "memory": "16Mi"}, "limits": Object{"memory": "64Mi"}},
				}}},
			},
		},
	}
}

// widget is a custom resource.
func widget(namespace, name, value string) Object {
	return Object{
		"apiVersion": widgets + "/v1", "kind": "Widget", "metadata": Object{"name": name, "namespace": namespace, "labels": Object{"app": "load"}},
		"spec": Object{"value": value, "size": 3, "rules": []any{
			Object{"from": "a", "to": "b", "ports": []any{80, 443}}, Object{"from": "b", "to": "c", "ports": []any{8080}},
		}},
	}
}

// definition is the CRD of a kind with a status.
func definition(group, kind, plural string) Object {
	return Object{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": Object{"name": plural + "." + group},
		"spec": Object{
			"group": group, "scope": "Namespaced",
			"names": Object{"kind": kind, "plural": plural, "singular": strings.ToLower(kind), "listKind": kind + "List"},
			"versions": []any{Object{
				"name": "v1", "served": true, "storage": true, "subresources": Object{"status": Object{}},
				"schema": Object{"openAPIV3Schema": Object{"type": "object", "properties": Object{
					"spec":   Object{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
					"status": Object{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
				}}},
			}},
		},
	}
}

// Mixed is a load of n objects: four in ten are ConfigMaps, three Deployments without replicas, three custom
// resources. Objects that changed picks have another value.
func Mixed(namespace string, n int, changed func(i int) bool) []Object {
	all := make([]Object, n)
	for i := range all {
		value := "first"
		if changed != nil && changed(i) {
			value = "second"
		}
		switch name := fmt.Sprintf("load-%05d", i); i % 10 {
		case 0, 1, 2, 3:
			all[i] = configMap(namespace, name, value)
		case 4, 5, 6:
			all[i] = deployment(namespace, name, value, 0)
		default:
			all[i] = widget(namespace, name, value)
		}
	}
	return all
}

// Light is a load of n ConfigMaps and custom resources, half of each.
func Light(namespace string, n int) []Object {
	all := make([]Object, n)
	for i := range all {
		if name := fmt.Sprintf("load-%05d", i); i%2 == 0 {
			all[i] = configMap(namespace, name, "first")
		} else {
			all[i] = widget(namespace, name, "first")
		}
	}
	return all
}

// pathOf is where an object is in the API.
func pathOf(obj Object) string {
	namespace, name := text(obj, "metadata", "namespace"), text(obj, "metadata", "name")
	switch text(obj, "kind") {
	case "ConfigMap":
		return "/api/v1/namespaces/" + namespace + "/configmaps/" + name
	case "Deployment":
		return "/apis/apps/v1/namespaces/" + namespace + "/deployments/" + name
	default:
		return "/apis/" + widgets + "/v1/namespaces/" + namespace + "/widgets/" + name
	}
}

// perFile is how many objects are in a file, as a person or a generator would have them.
const perFile = 50

// files writes objects as manifests, in files of several documents.
func files(objects []Object) (map[string]string, error) {
	all := map[string]string{}
	for i := 0; i < len(objects); i += perFile {
		var b strings.Builder
		for _, obj := range objects[i:min(len(objects), i+perFile)] {
			document, err := manifest(obj)
			if err != nil {
				return nil, err
			}
			b.WriteString(document)
		}
		all[fmt.Sprintf("objects-%04d.yaml", i/perFile)] = b.String()
	}
	return all, nil
}

// manifest writes a document as people do.
func manifest(obj Object) (string, error) {
	document, err := yaml.Marshal(obj)
	return "---\n" + string(document), err
}
