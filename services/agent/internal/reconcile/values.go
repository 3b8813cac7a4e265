package reconcile

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/services/agent/internal/desired"
	"fairlead.dev/services/agent/internal/kubeyaml"
	"fairlead.dev/services/agent/internal/object"
	"fairlead.dev/services/agent/internal/render"
	"fairlead.dev/services/agent/internal/watch"
)

const (
	// usualKey of values in a ConfigMap or Secret.
	usualKey = "values.yaml"
	// maxValues bounds the values that a chart gets from the cluster, in bytes.
	maxValues = 4 << 20
)

// sourcesOf are the ConfigMaps and Secrets that a service takes values from.
func sourcesOf(service desired.Service) []object.Ref {
	var refs []object.Ref
	for _, from := range service.Render.GetHelm().GetValuesFrom() {
		refs = append(refs, object.Ref{Key: object.Key{Kind: from.GetKind(), Namespace: service.Namespace, Name: from.GetName()}, Version: "v1"})
	}
	return refs
}

// givenOf reads the values that a service takes from the cluster, as the service may, and names their versions. Values
// of Secrets are told to nobody from now on.
func (s *site) givenOf(ctx context.Context, service desired.Service) (given []render.Given, versions string, err error) {
	refs := sourcesOf(service)
	if len(refs) == 0 {
		return nil, "", nil
	}
	if seen, known := s.controller.Watcher.Sources(s.name); known { // the streams may be behind what is about to be read
		s.renders.setBehind(nameVersions(seen))
	}
	var all, secrets []string
	size := 0
	for i, from := range service.Render.GetHelm().GetValuesFrom() {
		text, version, err := s.valueAt(ctx, service, refs[i], from)
		if err != nil {
			return nil, "", err
		}
		all = append(all, version)
		if text == nil {
			continue
		}
		if size += len(*text); size > maxValues {
			return nil, "", fmt.Errorf("render.helm.valuesFrom: the values have more than %d MiB", maxValues>>20)
		}
		if from.GetKind() == "Secret" {
			secrets = append(secrets, *text)
		}
		given = append(given, render.Given{From: shownKey(refs[i], from), Text: *text, Path: from.GetTargetPath(), Secret: from.GetKind() == "Secret"})
	}
	s.controller.Desired.Hide(s.name, secrets)
	return given, nameVersions(all), nil
}

func shownKey(ref object.Ref, from *deliveryv1.ValuesReference) string {
	return fmt.Sprintf("%s, key %s", ref.Key, keyOf(from))
}

func keyOf(from *deliveryv1.ValuesReference) string {
	if from.GetKey() == "" {
		return usualKey
	}
	return from.GetKey()
}

// valueAt reads a key of an object; nil: it is not there, and need not be.
func (s *site) valueAt(ctx context.Context, service desired.Service, ref object.Ref, from *deliveryv1.ValuesReference) (text *string, version string, err error) {
	const setting = "render.helm.valuesFrom: "
	there := false
	_, err = s.controller.Lookup(service)(ctx, ref.GVK(), ref.Namespace, ref.Name, func(obj *unstructured.Unstructured) {
		there, version = true, watch.VersionOf(obj)
		if value, ok, _ := unstructured.NestedString(obj.Object, "data", keyOf(from)); ok {
			text = &value
		}
	})
	if refused, ok := errors.AsType[*render.RefusedError](err); ok {
		return nil, "", &kubeyaml.Error{Position: kubeyaml.Position{File: service.Path}, Problem: setting + refused.Why}
	}
	switch {
	case err != nil:
		return nil, "", fmt.Errorf(setting+"read %s: %w", ref.Key, err)
	case !there && !from.GetOptional():
		return nil, "", fmt.Errorf(setting+"%s does not exist. Make it, or set optional", ref.Key)
	case text == nil && !from.GetOptional():
		return nil, "", fmt.Errorf(setting+"%s has no key %s. Add it, or set optional", ref.Key, keyOf(from))
	case text == nil:
		return nil, version, nil
	}
	if from.GetKind() == "Secret" {
		plain, err := base64.StdEncoding.DecodeString(*text)
		if err != nil {
			return nil, "", fmt.Errorf(setting+"%s is no base64", shownKey(ref, from))
		}
		*text = string(plain)
	}
	if !utf8.ValidString(*text) {
		return nil, "", fmt.Errorf(setting+"%s is no text", shownKey(ref, from))
	}
	return text, version, nil
}

// nameVersions is a short name of the versions of some objects.
func nameVersions(versions []string) string {
	sum := sha256.New()
	for _, version := range versions {
		fmt.Fprintf(sum, "%d:%s", len(version), version)
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// givenAnew tells that the objects which a render took values from have changed since, by the versions that it was made
// with.
func (s *site) givenAnew(versions string) bool {
	if versions == "" {
		return false
	}
	seen, known := s.controller.Watcher.Sources(s.name)
	if !known {
		return false
	}
	now := nameVersions(seen)
	return now != versions && now != s.renders.wasBehind()
}

// noteSources lets what failed be tried again at once when an object has changed that values are from, and says so:
// that may be what mends it.
func (w *worker) noteSources() (isFresh bool) {
	seen, known := w.site.controller.Watcher.Sources(w.site.name)
	if !known {
		return false
	}
	now := nameVersions(seen)
	if w.sources != "" && w.sources != now {
		w.notBefore, w.progress = time.Time{}, nil
		w.backoff.Reset()
		isFresh = true
	}
	w.sources = now
	return isFresh
}

// recallSecrets reads the Secrets of a service's values once after the start: nothing may be rendered that would, and
// what the API server says may quote them. A Secret that can't be read was not rendered either.
func (w *worker) recallSecrets(ctx context.Context, service desired.Service) {
	if w.recalled {
		return
	}
	w.recalled = true
	for i, ref := range sourcesOf(service) {
		from := service.Render.GetHelm().GetValuesFrom()[i]
		if from.GetKind() != "Secret" {
			continue
		}
		if text, _, err := w.site.valueAt(ctx, service, ref, from); err == nil && text != nil {
			w.site.controller.Desired.Hide(w.site.name, []string{*text})
		}
	}
}
