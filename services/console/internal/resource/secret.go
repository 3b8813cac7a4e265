package resource

import (
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
)

// Secret holds credentials by key.
type Secret struct {
	Meta state.Meta
	// Data is write-only: the values are empty in what is read.
	Data map[string]string
}

// SecretSpec is the part of a secret that anybody may see.
type SecretSpec struct {
	Keys []string `json:"keys"`
}

// ReadSecret makes a secret of what is stored, without values.
func ReadSecret(r store.Resource) (Secret, error) {
	var spec SecretSpec
	if err := state.Decode(r, &spec); err != nil {
		return Secret{}, err
	}
	s := Secret{Meta: state.MetaOf(r), Data: make(map[string]string, len(spec.Keys))}
	for _, key := range spec.Keys {
		s.Data[key] = ""
	}
	return s, nil
}
