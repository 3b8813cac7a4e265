package rpc

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/pulse"
	"fairlead.dev/platform/server"
	"fairlead.dev/services/console/internal/audit"
	"fairlead.dev/services/console/internal/call"
	"fairlead.dev/services/console/internal/condition"
	"fairlead.dev/services/console/internal/descriptor"
	"fairlead.dev/services/console/internal/store/audittrail"
	"fairlead.dev/services/console/internal/store/backup"
	"fairlead.dev/services/console/internal/store/database"
	"fairlead.dev/services/console/internal/store/guard"
)

func adminMounts(d Deps) []server.Mount {
	return []server.Mount{
		server.RPC(consolev1connect.AdminServiceName, func(o ...connect.HandlerOption) (string, http.Handler) {
			path, h := consolev1connect.NewAdminServiceHandler(&admin{d}, o...)
			return path, call.WithDeadlines(h)
		}),
	}
}

func adminPolicy() identity.Policy {
	return identity.Policy{
		consolev1connect.AdminServiceGetHubProcedure:          identity.RoleUser,
		consolev1connect.AdminServiceBackupProcedure:          identity.RoleAdmin,
		consolev1connect.AdminServiceGetRemovalsProcedure:     identity.RoleAdmin,
		consolev1connect.AdminServiceConfirmRemovalsProcedure: identity.RoleAdmin,
	}
}

type admin struct{ Deps }

// Backup sends while the backup is made: a caller that is slow to take it in holds the database's view of that moment.
func (s *admin) Backup(ctx context.Context, _ *consolev1.BackupRequest, stream *connect.ServerStream[consolev1.BackupResponse]) error {
	sum := sha256.New()
	send := func(m *consolev1.BackupResponse) error {
		return call.Bounded(ctx, call.SendTimeout, func() error { return stream.Send(m) })
	}
	out := bufio.NewWriterSize(writer(func(part []byte) (int, error) {
		_, _ = sum.Write(part) // a hash takes everything
		return len(part), send(&consolev1.BackupResponse{Data: part})
	}), backupPart)
	s.Log.InfoContext(ctx, "a backup is made", "actor", call.Actor(ctx))
	act := audit.Event(call.Who(ctx), time.Now().UTC(), audit.Act{Action: "database.backup"})
	if err := s.Audit.Append(ctx, []audittrail.Event{act}); err != nil {
		return s.fail(ctx, err)
	}
	if err := errors.Join(backup.Write(ctx, s.Store, out), out.Flush()); err != nil {
		return s.fail(ctx, err)
	}
	return send(&consolev1.BackupResponse{Sha256: hex.EncodeToString(sum.Sum(nil))})
}

func (s *admin) GetHub(ctx context.Context, req *consolev1.GetHubRequest) (*consolev1.GetHubResponse, error) {
	is := s.Condition
	self := is.Consoles.Self
	out := &consolev1.GetHubResponse{Version: self.Version, StartTime: descriptor.Stamp(self.Started), TraceUrl: is.TraceURL}
	if !req.GetCondition() {
		return out, nil
	}
	consoles, err := is.Consoles.List(ctx)
	caller, _ := identity.FromContext(ctx)
	switch {
	case caller.Has(identity.RoleAdmin):
		out.Database, out.Alerts = encodeDatabase(is.About(ctx), is.Database.Last()), encodeAlerts(is.Alerts.State(ctx))
	case err != nil: // grants are not asked for: the database would be waited for
		return out, nil //nolint:nilerr // a person without rights that are known sees the version
	default:
		if grants, err := s.Rights.Grants(ctx, caller); err != nil || len(grants) == 0 {
			return out, nil //nolint:nilerr // as above
		}
	}
	if err != nil {
		out.ConsolesMissing = "the catalog's database does not answer"
	}
	out.Consoles = descriptor.Each(consoles, func(c database.Console) *consolev1.HubConsole {
		return &consolev1.HubConsole{Name: c.Name, Version: c.Version, StartTime: descriptor.Stamp(c.Started), Answers: c.ID == self.ID}
	})
	return out, nil
}

func encodeDatabase(about database.About, beat pulse.Beat) *consolev1.DatabaseState {
	out := &consolev1.DatabaseState{
		Kind: about.Kind, Version: about.Version, Bytes: about.Bytes, Since: descriptor.Stamp(beat.Since), AskTime: descriptor.Stamp(beat.Asked), RoundTrip: durationpb.New(beat.Took),
		WriteTime: descriptor.Stamp(about.LastWrite.Time),
	}
	switch failed := about.WriteFailed; {
	case beat.Problem != nil:
		out.Problem = beat.Problem.Error()
	case failed.Problem != nil:
		out.Problem, out.Since = "writes fail: "+failed.Problem.Error(), descriptor.Stamp(failed.Since)
	}
	if !about.LastWrite.Time.IsZero() {
		out.WriteDuration = durationpb.New(about.LastWrite.Took)
	}
	return out
}

func encodeAlerts(is condition.AlertState) *consolev1.AlertState {
	return &consolev1.AlertState{
		Configured: is.Configured, Problem: is.Problem, AskTime: descriptor.Stamp(is.Asked), Alerts: descriptor.Each(is.Alerts, func(a condition.Alert) *consolev1.HubAlert {
			return &consolev1.HubAlert{Name: a.Name, Severity: a.Severity, Summary: a.Summary, Description: a.Description, ActiveTime: descriptor.Stamp(a.Since), Labels: a.Labels}
		}),
	}
}

// backupPart is how many bytes go into one message.
const backupPart = 256 << 10

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

func (s *admin) GetRemovals(ctx context.Context, _ *consolev1.GetRemovalsRequest) (*consolev1.GetRemovalsResponse, error) {
	is, err := s.Removals.State(ctx)
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	return &consolev1.GetRemovalsResponse{
		HoldTime: descriptor.Stamp(is.HoldTime), Reason: is.Reason, Id: is.ID,
		Clusters: descriptor.Each(is.Clusters, func(h guard.Held) *consolev1.HeldRemovals {
			return &consolev1.HeldRemovals{Cluster: h.Cluster, Services: h.Services, Since: descriptor.Stamp(h.Time)}
		}),
	}, nil
}

func (s *admin) ConfirmRemovals(ctx context.Context, req *consolev1.ConfirmRemovalsRequest) (*consolev1.ConfirmRemovalsResponse, error) {
	if err := s.Removals.Confirm(ctx, call.By(ctx), req.GetId()); err != nil {
		return nil, s.fail(ctx, err)
	}
	return &consolev1.ConfirmRemovalsResponse{}, nil
}
