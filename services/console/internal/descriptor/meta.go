package descriptor

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/services/console/internal/state"
)

// Meta is what a caller says in metadata.
func Meta(m *consolev1.Metadata) state.Meta {
	return state.Meta{Name: m.GetName(), Labels: m.GetLabels(), ETag: m.GetEtag()}
}

// Metadata is that of a resource.
func Metadata(m state.Meta) *consolev1.Metadata {
	return &consolev1.Metadata{
		Name: m.Name, Labels: m.Labels, Uid: m.UID, Revision: m.Revision, Etag: m.ETag,
		CreateTime: Stamp(m.CreateTime), UpdateTime: Stamp(m.UpdateTime),
	}
}

// Stamp is nil for the zero time.
func Stamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// Moment is the zero time for nil, and for what is no time.
func Moment(t *timestamppb.Timestamp) time.Time {
	if !t.IsValid() {
		return time.Time{}
	}
	return t.AsTime()
}
