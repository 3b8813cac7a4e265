package signin

import (
	"context"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/services/console/internal/call"
	"fairlead.dev/services/console/internal/descriptor"
	"fairlead.dev/services/console/internal/recording"
	"fairlead.dev/services/console/internal/store/recordings"
)

type recordingService struct{ Deps }

func (s *recordingService) BeginRecording(ctx context.Context, req *consolev1.BeginRecordingRequest) (*consolev1.BeginRecordingResponse, error) {
	in := req.GetRecording()
	r := recordings.Recording{ID: in.GetId(), Cluster: in.GetCluster(), Subject: in.GetSubject(), RecordingData: recordings.RecordingData{
		Namespace: in.GetNamespace(), Pod: in.GetPod(), Container: in.GetContainer(), Verb: in.GetVerb(), Request: in.GetRequest(),
	}}
	if in.GetBeginTime() != nil {
		r.Begin = in.GetBeginTime().AsTime()
	}
	if err := s.Recordings.Begin(ctx, r); err != nil {
		return nil, s.Fail(ctx, err)
	}
	return &consolev1.BeginRecordingResponse{MaxBytes: recording.MaxBytes}, nil
}

func (s *recordingService) AppendRecording(ctx context.Context, req *consolev1.AppendRecordingRequest) (*consolev1.AppendRecordingResponse, error) {
	if err := s.Recordings.Append(ctx, req.GetId(), req.GetSequence(), req.GetData(), req.GetEnd(), req.GetIncomplete()); err != nil {
		return nil, s.Fail(ctx, err)
	}
	return &consolev1.AppendRecordingResponse{}, nil
}

func (s *recordingService) ListRecordings(ctx context.Context, req *consolev1.ListRecordingsRequest) (*consolev1.ListRecordingsResponse, error) {
	list, next, err := s.Recordings.List(ctx, call.By(ctx).Identity, req.GetCluster(), storedSubject(req.GetSubject()), int(req.GetPageSize()), req.GetPageToken())
	if err != nil {
		return nil, s.Fail(ctx, err)
	}
	return &consolev1.ListRecordingsResponse{Recordings: descriptor.Each(list, encodeRecording), NextPageToken: next}, nil
}

func (s *recordingService) ReadRecording(ctx context.Context, req *consolev1.ReadRecordingRequest) (*consolev1.ReadRecordingResponse, error) {
	r, data, next, err := s.Recordings.Read(ctx, call.By(ctx), req.GetId(), req.GetAfter())
	if err != nil {
		return nil, s.Fail(ctx, err)
	}
	return &consolev1.ReadRecordingResponse{Recording: encodeRecording(r), Data: data, Next: next}, nil
}

func encodeRecording(r recordings.Recording) *consolev1.Recording {
	return &consolev1.Recording{
		Id: r.ID, Cluster: r.Cluster, Namespace: r.Namespace, Pod: r.Pod, Container: r.Container, Verb: r.Verb, Subject: shownName(r.Subject), Request: r.Request,
		BeginTime: descriptor.Stamp(r.Begin), EndTime: descriptor.Stamp(r.End), UpdateTime: descriptor.Stamp(r.Update), Bytes: r.Bytes, Incomplete: r.Incomplete,
	}
}

// storedSubject is how the database names somebody whom people name by shownName.
func storedSubject(shown string) string {
	if id, err := identityOf(shown, nil); err == nil {
		return id.Subject()
	}
	return shown
}
