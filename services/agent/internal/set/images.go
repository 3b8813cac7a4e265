package set

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"fairlead.dev/platform/agentconfig"
	"fairlead.dev/services/agent/internal/kubeyaml"
	"fairlead.dev/services/agent/internal/object"
)

// ForeignImageError is an image that the agent's configuration lets no service pull. The error is no mistake of the
// folder: the configuration may be another one soon.
type ForeignImageError struct {
	At    kubeyaml.Position
	Of    string // the object
	Image string
}

func (e *ForeignImageError) Error() string {
	return fmt.Sprintf("%s: %s: image %q is of no registry that an AgentConfig of the hub allows (images.registries)", e.At, e.Of, e.Image)
}

// noteForeign notes the images of an object that may not be pulled.
func (b *Builder) noteForeign(obj *unstructured.Unstructured, at kubeyaml.Position) {
	if len(b.Registries) == 0 {
		return
	}
	eachImage(obj.Object, func(image string) {
		if !agentconfig.AllowsImage(b.Registries, image) {
			b.foreign.Add(&ForeignImageError{At: at, Of: object.RefOf(obj).String(), Image: image})
		}
	})
}

// AllowsImages tells whether all images of a set may be pulled, as Target.Registries says for one that is made.
func (s *Set) AllowsImages(registries [][]string) (bool, error) {
	if len(registries) == 0 {
		return true, nil
	}
	items, err := s.Items()
	if err != nil {
		return false, err
	}
	allowed := true
	for _, item := range items {
		if item.Flags&object.LeftOut != 0 {
			continue
		}
		obj, _, err := s.Object(item)
		if err != nil {
			return false, err
		}
		eachImage(obj.Object, func(image string) { allowed = allowed && agentconfig.AllowsImage(registries, image) })
		if !allowed {
			return false, nil
		}
	}
	return true, nil
}

// eachImage are those of containers and of volumes, wherever in an object a pod is described: in a Deployment, and in
// custom resources that have templates of pods.
func eachImage(value any, found func(string)) {
	switch value := value.(type) {
	case map[string]any:
		for _, list := range []string{"containers", "initContainers", "ephemeralContainers"} {
			containers, _ := value[list].([]any)
			for _, c := range containers {
				if image, ok := fieldOf(c, "image").(string); ok {
					found(image)
				}
			}
		}
		volumes, _ := value["volumes"].([]any)
		for _, v := range volumes {
			if image, ok := fieldOf(fieldOf(v, "image"), "reference").(string); ok {
				found(image)
			}
		}
		for _, below := range value {
			eachImage(below, found)
		}
	case []any:
		for _, below := range value {
			eachImage(below, found)
		}
	}
}

func fieldOf(of any, name string) any {
	m, _ := of.(map[string]any)
	return m[name]
}
