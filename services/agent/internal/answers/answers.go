// Package answers keeps, inside the cluster, what the random and time functions of charts and templates gave, so that a
// content that is rendered again gives the same objects: after a lost disk, by another agent, or because the cluster
// has new kinds.
//
// One Secret per service, `values.<service>` in the namespace fairlead-system, with one key for each of the last few
// contents. The Secret is written before anything that was made from it is applied, and removed with the service.
// Without it the next render gives new values.
package answers

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"fairlead.dev/services/agent/internal/inventory"
	"fairlead.dev/services/agent/internal/object"
	"fairlead.dev/services/agent/internal/render"
)

const (
	// Label marks a Secret with its service.
	Label = "fairlead.dev/values"
	// most bounds the contents of a service whose answers are kept; with render.MaxAnswers each they fit into a Secret.
	most = 3
)

// Store keeps the answers of one cluster. A Store is safe for concurrent use, but one service at a time has one writer.
type Store struct {
	secrets    dynamic.ResourceInterface
	namespaces inventory.Namespaces
}

// New returns a store over the Secrets of inventory.Namespace.
func New(secrets dynamic.ResourceInterface, namespaces inventory.Namespaces) *Store {
	return &Store{secrets: secrets, namespaces: namespaces}
}

// content is what is kept for one content of a service.
type content struct {
	// Time when it was rendered last with other answers than before.
	Time    time.Time       `json:"time"`
	Answers []render.Answer `json:"answers"`
}

// kept is what the cluster has of a service.
type kept struct {
	service  string
	version  string // resourceVersion of the Secret, "" if there is none
	contents map[string]content
}

// readKept reads what is kept of a service.
func (s *Store) readKept(ctx context.Context, service string) (*kept, error) {
	kept := &kept{service: service, contents: map[string]content{}}
	found, err := s.secrets.Get(ctx, inventory.ValuesName(service), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return kept, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read kept random values: %w", err)
	}
	kept.version = found.GetResourceVersion()
	data, _, _ := unstructured.NestedStringMap(found.Object, "data")
	for id, text := range data {
		raw, err := base64.StdEncoding.DecodeString(text)
		var one content
		if err == nil {
			err = json.Unmarshal(raw, &one)
		}
		if err != nil { // the decoder may quote a value
			return nil, fmt.Errorf("secret %s/%s with the kept random values of the service is damaged. Restore it; or delete it, and the service gets new values",
				inventory.Namespace, inventory.ValuesName(service))
		}
		kept.contents[id] = one
	}
	return kept, nil
}

// saveKept writes the answers that a render of a content used. Kept ones that it did not use stay as long as there is
// room, for the cluster may be as it was before again. The answers of the content that is applied stay, too, and of
// others the latest.
func (s *Store) saveKept(ctx context.Context, kept *kept, id, applied string, used []render.Answer) error {
	before := kept.contents[id]
	after, same := merge(before.Answers, used, time.Now())
	if same {
		return nil
	}
	contents := map[string]content{id: {Time: time.Now().UTC().Truncate(time.Second), Answers: after}}
	if one, ok := kept.contents[applied]; ok && applied != id {
		contents[applied] = one
	}
	others := make([]string, 0, len(kept.contents))
	for other := range kept.contents {
		others = append(others, other)
	}
	slices.SortFunc(others, func(a, b string) int {
		return cmp.Or(kept.contents[b].Time.Compare(kept.contents[a].Time), cmp.Compare(a, b))
	})
	for _, other := range others {
		if _, ok := contents[other]; !ok && len(contents) < most {
			contents[other] = kept.contents[other]
		}
	}
	secret, err := secretOf(kept.service, contents)
	if err != nil {
		return err
	}
	return s.write(ctx, kept, secret, contents)
}

func (s *Store) write(ctx context.Context, kept *kept, secret *unstructured.Unstructured, contents map[string]content) error {
	write := func() (*unstructured.Unstructured, error) {
		if kept.version == "" {
			return s.secrets.Create(ctx, secret, metav1.CreateOptions{FieldManager: object.FieldManager})
		}
		secret.SetResourceVersion(kept.version)
		return s.secrets.Update(ctx, secret, metav1.UpdateOptions{FieldManager: object.FieldManager})
	}
	written, err := write()
	if apierrors.IsNotFound(err) && kept.version == "" {
		if err := s.namespaces.EnsureNamespace(ctx, inventory.Namespace); err != nil {
			return fmt.Errorf("keep random values: %w", err)
		}
		written, err = write()
	}
	if err != nil {
		return fmt.Errorf("keep random values: %w", err)
	}
	kept.version, kept.contents = written.GetResourceVersion(), contents
	return nil
}

// merge puts together what is kept of a content. A certificate that was made again replaces what was made of the one
// before.
func merge(before, used []render.Answer, now time.Time) (after []render.Answer, same bool) {
	renewed := slices.ContainsFunc(before, func(a render.Answer) bool { return a.Due(now) })
	known := make(map[render.Call]bool, len(used))
	size := 0
	for _, answer := range used {
		known[answer.Call] = true
		size += answer.Size()
	}
	after = slices.Clone(used)
	stays := 0
	for _, answer := range before {
		if known[answer.Call] {
			stays++
			continue
		}
		if size += answer.Size(); renewed || size > render.MaxAnswers {
			continue
		}
		after = append(after, answer)
		stays++
	}
	return after, !renewed && stays == len(before) && len(after) == len(before)
}

func secretOf(service string, contents map[string]content) (*unstructured.Unstructured, error) {
	data := map[string]any{}
	for id, one := range contents {
		text, err := json.Marshal(one)
		if err != nil {
			return nil, fmt.Errorf("encode random values: %w", err)
		}
		data[id] = base64.StdEncoding.EncodeToString(text)
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": "fairlead.dev/values",
		"metadata": map[string]any{"name": inventory.ValuesName(service), "namespace": inventory.Namespace, "labels": map[string]any{Label: service}},
		"data":     data,
	}}, nil
}

// Forget removes what is kept of a service.
func (s *Store) Forget(ctx context.Context, service string) error {
	err := s.secrets.Delete(ctx, inventory.ValuesName(service), metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("remove kept random values: %w", err)
	}
	return nil
}
