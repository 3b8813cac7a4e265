package state

import (
	"encoding/json"
	"fmt"
	"time"

	"fairlead.dev/services/console/internal/store"
)

// Meta is what every resource has. All but Name and Labels is the console's own.
type Meta struct {
	Name       string
	Labels     map[string]string
	UID        string
	Revision   int64
	ETag       string
	CreateTime time.Time
	UpdateTime time.Time
}

// MetaOf returns what the store knows of a resource.
func MetaOf(r store.Resource) Meta {
	return Meta{
		Name: r.Name, Labels: r.Labels, UID: r.UID, Revision: r.Revision, ETag: r.ETag(),
		CreateTime: r.CreateTime, UpdateTime: r.UpdateTime,
	}
}

// ReadSource makes a source of what is stored, without a status.
func ReadSource(r store.Resource) (Source, error) {
	s := Source{Meta: MetaOf(r)}
	err := Decode(r, &s.Spec)
	return s, err
}

// ReadCluster makes a cluster of what is stored, without a status.
func ReadCluster(r store.Resource) (Cluster, error) {
	c := Cluster{Meta: MetaOf(r)}
	err := Decode(r, &c.Spec)
	return c, err
}

// ReadService makes a service of what is stored, without a status.
func ReadService(r store.Resource) (Service, error) {
	s := Service{Meta: MetaOf(r)}
	err := Decode(r, &s.Spec)
	return s, err
}

// Decode reads a stored spec.
func Decode(r store.Resource, spec any) error {
	if err := json.Unmarshal(r.Spec, spec); err != nil {
		return fmt.Errorf("decode %s %q: %w", r.Kind, r.Name, err)
	}
	return nil
}

// ReadHeads makes a source's status of what is stored.
func ReadHeads(h store.Heads) (SourceStatus, error) {
	status := SourceStatus{Epoch: h.Epoch, Owner: h.Owner}
	if err := json.Unmarshal(h.State, &status); err != nil {
		return SourceStatus{}, fmt.Errorf("decode heads: %w", err)
	}
	return status, nil
}
