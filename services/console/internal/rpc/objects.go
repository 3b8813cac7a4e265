package rpc

import (
	"bytes"
	"compress/flate"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/refusal"
	"fairlead.dev/platform/typo"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/descriptor"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store/shown"
)

const (
	defaultObjects = 100
	// lookedAt bounds the services that one page of objects is looked for in: a page may be short, and say where to go
	// on.
	lookedAt = 500
	// detailBatch is how many services are read at once.
	detailBatch = 50
	// maxDetail bounds what a detail is unpacked to: more than the contract allows an agent to send.
	maxDetail = 16 << 20
)

type objects struct{ Deps }

func (s *objects) RecordDetails(ctx context.Context, req *consolev1.RecordDetailsRequest) (*consolev1.RecordDetailsResponse, error) {
	withoutZeros(req)
	in := req.GetDetail()
	if run := in.GetTestRun(); run != nil {
		if err := s.recordTestRun(ctx, req.GetCluster(), in); err != nil {
			return nil, s.fail(ctx, err)
		}
		return &consolev1.RecordDetailsResponse{}, nil
	}
	kind := shown.DetailObjects
	switch in.GetDetail().(type) {
	case *deliveryv1.ServiceDetail_Diff:
		kind = shown.DetailDiff
	case *deliveryv1.ServiceDetail_Notes:
		kind = shown.DetailNotes
	}
	data, err := pack(in)
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	d := shown.Detail{Digest: in.GetDigest(), Time: descriptor.Moment(in.GetObservedTime()), Data: data}
	if err := s.Intake.RecordDetail(ctx, req.GetCluster(), in.GetService(), kind, d); err != nil {
		return nil, s.fail(ctx, err)
	}
	return &consolev1.RecordDetailsResponse{}, nil
}

func (s *objects) GetServiceDiff(ctx context.Context, req *consolev1.GetServiceDiffRequest) (*consolev1.GetServiceDiffResponse, error) {
	d, err := s.Catalog.Detail(ctx, shown.DetailDiff, req.GetName())
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	if d.Detail.Data == nil {
		return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("there is no diff of service %q yet: its agent reports one while something waits, as with `fairlead hold service %s --mode dry-run`", req.GetName(), req.GetName()))
	}
	detail, err := unpack(d.Detail.Data)
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	return &consolev1.GetServiceDiffResponse{Diff: detail.GetDiff(), Digest: d.Detail.Digest, ObservedTime: descriptor.Stamp(d.Detail.Time)}, nil
}

func (s *objects) GetServiceNotes(ctx context.Context, req *consolev1.GetServiceNotesRequest) (*consolev1.GetServiceNotesResponse, error) {
	d, err := s.Catalog.Detail(ctx, shown.DetailNotes, req.GetName())
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	var notes *deliveryv1.Notes
	if d.Detail.Data != nil {
		detail, err := unpack(d.Detail.Data)
		if err != nil {
			return nil, s.fail(ctx, err)
		}
		notes = detail.GetNotes()
	}
	if notes.GetText() == "" {
		return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("there are no notes of service %q: its folder has no chart with a templates/NOTES.txt, or its agent has not rendered it since it tells them", req.GetName()))
	}
	return &consolev1.GetServiceNotesResponse{Text: notes.GetText(), Digest: d.Detail.Digest, ObservedTime: descriptor.Stamp(d.Detail.Time)}, nil
}

// mostListed is how many objects an agent lists of a service: of one with more, not all are known.
const mostListed = 20_000

// missing returns the first of the objects, named as in RequestSync, that a service neither has nor is going to have;
// empty: it has all of them, or the lists of its agent are of another time.
func (d Deps) missing(ctx context.Context, service string, objects []string) (string, error) {
	list, has, err := d.detail(ctx, shown.DetailObjects, service)
	if err != nil || has == nil || len(has.GetObjects().GetObjects()) >= mostListed {
		return "", err
	}
	difference, would, err := d.detail(ctx, shown.DetailDiff, service)
	if err != nil {
		return "", err
	}
	status, diff := list.Service.Status, would.GetDiff()
	whole := len(diff.GetObjects()) == int(diff.GetCreated()+diff.GetChanged()+diff.GetRemoved())
	report := status.Cluster.Report
	switch {
	case status.Hub.Digest == "" || report == nil || report.AppliedDigest == "":
		return "", nil
	case list.Detail.Digest != report.AppliedDigest: // the report of an apply comes before the list
		return "", nil
	case report.AppliedDigest == status.Hub.Digest:
	case difference.Detail.Digest != status.Hub.Digest || !whole:
		return "", nil
	}
	for _, text := range objects {
		applied := slices.ContainsFunc(has.GetObjects().GetObjects(), func(o *deliveryv1.ManagedObject) bool { return namesObject(text, o) })
		waits := slices.ContainsFunc(diff.GetObjects(), func(o *deliveryv1.ObjectDiff) bool { return namesObject(text, o) })
		if !applied && !waits {
			return text, nil
		}
	}
	return "", nil
}

// detail is what the agent handed over of one kind about a service.
func (d Deps) detail(ctx context.Context, kind shown.DetailKind, service string) (catalog.ServiceDetail, *deliveryv1.ServiceDetail, error) {
	out, err := d.Catalog.Detail(ctx, kind, service)
	if err != nil || out.Detail.Data == nil {
		return out, nil, err
	}
	unpacked, err := unpack(out.Detail.Data)
	return out, unpacked, err
}

// named is an object of a list.
type named interface {
	GetGroup() string
	GetKind() string
	GetNamespace() string
	GetName() string
}

// namesObject tells whether KIND/NAME or KIND/NAMESPACE/NAME names an object, as agents read it.
func namesObject(text string, o named) bool {
	parts := strings.Split(text, "/")
	kind, name := parts[0], parts[len(parts)-1]
	if name != o.GetName() || len(parts) == 3 && parts[1] != o.GetNamespace() {
		return false
	}
	return strings.EqualFold(kind, o.GetKind()) || strings.EqualFold(kind, o.GetKind()+"."+o.GetGroup())
}

func (s *objects) ListObjects(ctx context.Context, req *consolev1.ListObjectsRequest) (*consolev1.ListObjectsResponse, error) {
	at, err := parsePlace(req.GetPageToken())
	if err != nil {
		return nil, err
	}
	if h := req.GetHealth(); h != "" && !slices.ContainsFunc(healths(), func(known string) bool { return strings.EqualFold(known, h) }) {
		return nil, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("health: no object is %q%s", h, typo.Suggest(h, healths())))
	}
	p := &objectPage{req: req, size: int(req.GetPageSize())}
	if p.size == 0 {
		p.size = defaultObjects
	}
	if req.GetService() != "" {
		d, err := s.Catalog.Detail(ctx, shown.DetailObjects, req.GetService())
		if refusal.Is(err, refusal.NotFound) {
			return &consolev1.ListObjectsResponse{}, nil
		}
		if err == nil {
			_, err = p.add(d, at)
		}
		if err != nil {
			return nil, s.fail(ctx, err)
		}
		return p.response(), nil
	}
	for seen := 0; seen < lookedAt; {
		batch, err := s.Catalog.Details(ctx, shown.DetailObjects, at.after, detailBatch)
		if err != nil {
			return nil, s.fail(ctx, err)
		}
		for _, d := range batch {
			full, err := p.add(d, at)
			if err != nil {
				return nil, s.fail(ctx, err)
			}
			if full {
				return p.response(), nil
			}
			at = place{after: d.Service.Meta.Name}
		}
		if len(batch) < detailBatch {
			return p.response(), nil
		}
		seen += len(batch)
	}
	p.next = at
	return p.response(), nil
}

// healths are how objects are: as agents report them, and Unknown while the cluster is not connected.
func healths() []string {
	return []string{"Healthy", "Progressing", "Degraded", "Missing", "Failed", "Unknown"}
}

// place is where a list goes on: in the first service after this name, at this object of it.
type place struct {
	after  string
	offset int
}

func (p place) String() string {
	if p == (place{}) {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString([]byte(p.after + "/" + strconv.Itoa(p.offset)))
}

func parsePlace(token string) (place, error) {
	if token == "" {
		return place{}, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(token)
	after, number, _ := strings.Cut(string(text), "/")
	offset, numberErr := strconv.Atoi(number)
	if err != nil || numberErr != nil || offset < 0 {
		return place{}, connect.NewError(connect.CodeInvalidArgument, errors.New("page_token: is not one that a list returned"))
	}
	return place{after, offset}, nil
}

// objectPage gathers a page.
type objectPage struct {
	req  *consolev1.ListObjectsRequest
	size int
	out  []*consolev1.ClusterObject
	next place
}

func (p *objectPage) response() *consolev1.ListObjectsResponse {
	return &consolev1.ListObjectsResponse{Objects: p.out, NextPageToken: p.next.String()}
}

// add takes the objects of a service, from a place on, and says whether the page is full.
func (p *objectPage) add(d catalog.ServiceDetail, at place) (full bool, err error) {
	if d.Detail.Data == nil || p.req.GetCluster() != "" && d.Service.Spec.Cluster != p.req.GetCluster() {
		return false, nil
	}
	detail, err := unpack(d.Detail.Data)
	if err != nil {
		return false, err
	}
	reports := map[objectName]state.ObjectReport{}
	if r := d.Service.Status.Cluster.Report; r != nil {
		for _, o := range r.Objects {
			reports[objectName{o.Group, o.Kind, o.Namespace, o.Name}] = o
		}
	}
	observed := d.LastSeen
	if observed.IsZero() {
		observed = d.Detail.Time
	}
	list := detail.GetObjects().GetObjects()
	for i := min(at.offset, len(list)); i < len(list); i++ {
		o := list[i]
		report := reportOf(o, reports, d)
		if !p.fits(o, report) {
			continue
		}
		if len(p.out) == p.size {
			p.next = place{at.after, i}
			return true, nil
		}
		p.out = append(p.out, &consolev1.ClusterObject{
			Cluster: d.Service.Spec.Cluster, Service: d.Service.Meta.Name, Object: o, Report: report, ObservedTime: descriptor.Stamp(observed),
		})
	}
	return false, nil
}

type objectName struct{ group, kind, namespace, name string }

// reportOf is the state of an object: what the report does not name is healthy.
func reportOf(o *deliveryv1.ManagedObject, reports map[objectName]state.ObjectReport, d catalog.ServiceDetail) *deliveryv1.ObjectReport {
	out := &deliveryv1.ObjectReport{Group: o.GetGroup(), Version: o.GetVersion(), Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: o.GetName(), Health: "Healthy"}
	if said, ok := reports[objectName{o.GetGroup(), o.GetKind(), o.GetNamespace(), o.GetName()}]; ok {
		out = encodeObjectReport(said)
	}
	if !d.Connected {
		said := out.GetHealth()
		out.Health, out.Message = "Unknown", fmt.Sprintf("Cluster %q is not connected; the object was %s when it was.", d.Service.Spec.Cluster, said)
	}
	if out.GetMessage() == "" {
		out.Message = o.GetLeaving()
	}
	return out
}

func (p *objectPage) fits(o *deliveryv1.ManagedObject, report *deliveryv1.ObjectReport) bool {
	for _, f := range []struct{ want, is string }{
		{p.req.GetKind(), o.GetKind()}, {p.req.GetNamespace(), o.GetNamespace()}, {p.req.GetObject(), o.GetName()}, {p.req.GetHealth(), report.GetHealth()},
	} {
		if f.want != "" && !strings.EqualFold(f.want, f.is) {
			return false
		}
	}
	return true
}

// pack makes a detail small for the database.
func pack(d *deliveryv1.ServiceDetail) ([]byte, error) {
	plain, err := proto.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("encode detail: %w", err)
	}
	var out bytes.Buffer
	w, err := flate.NewWriter(&out, flate.DefaultCompression)
	if err == nil {
		_, err = w.Write(plain)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("pack detail: %w", err)
	}
	return out.Bytes(), nil
}

func unpack(data []byte) (*deliveryv1.ServiceDetail, error) {
	plain, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(data)), maxDetail))
	if err != nil {
		return nil, fmt.Errorf("unpack detail: %w", err)
	}
	var d deliveryv1.ServiceDetail
	if err := proto.Unmarshal(plain, &d); err != nil {
		return nil, fmt.Errorf("decode detail: %w", err)
	}
	return &d, nil
}
