package acceptance

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/await"
	"fairlead.dev/platform/identity"
	"fairlead.dev/services/console"
)

const recordingID = "019a8b2f4c11d0e6a1b2c3d4e5f60718"

// record has a tunnel make a recording of bob's shell, in two pieces.
func (p people) record(t *testing.T) {
	t.Helper()
	tunnel := p.service(t, identity.ServiceTunnel)
	if _, err := tunnel.recordings.BeginRecording(t.Context(), &consolev1.BeginRecordingRequest{
		Recording: &consolev1.Recording{
			Id: recordingID, Cluster: "edge-1", Namespace: "shop", Pod: "web-0", Verb: "exec", Subject: "user:bob",
		},
	}); err != nil {
		t.Fatal(err)
	}
	for i, text := range []string{"{\"version\":2}\n", "[1.0, \"o\", \"what bob saw\"]\n"} {
		req := &consolev1.AppendRecordingRequest{
			Id: recordingID, Sequence: int64(i + 1), Data: []byte(text), End: i == 1,
		}
		for range 2 { // an answer may be lost
			if _, err := tunnel.recordings.AppendRecording(t.Context(), req); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func (a api) read(t *testing.T) (text string, err error) {
	t.Helper()
	for after := int64(0); ; {
		res, err := a.recordings.ReadRecording(t.Context(), &consolev1.ReadRecordingRequest{
			Id: recordingID, After: after,
		})
		if err != nil {
			return text, err
		}
		text += string(res.GetData())
		if after = res.GetNext(); after == 0 {
			return text, nil
		}
	}
}

// To view recordings is a right of its own: no role that is always there has it, not even for one's own shell.
func TestRecordingsAreForThoseWhoMayViewThem(t *testing.T) {
	t.Parallel()
	for name, db := range eitherDatabase(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPeople(t, db)
			p.record(t)
			const want = "{\"version\":2}\n[1.0, \"o\", \"what bob saw\"]\n"
			if got, err := p.admin.read(t); err != nil || got != want {
				t.Errorf("an administrator reads %q, %v", got, err)
			}
			for _, who := range []api{p.lea, p.bob, p.eve} {
				_, err := who.read(t)
				wantCode(t, err, connect.CodeNotFound, "does not exist")
				list, err := who.recordings.ListRecordings(t.Context(), &consolev1.ListRecordingsRequest{})
				if err != nil || len(list.GetRecordings()) > 0 {
					t.Errorf("list %v, %v", list, err)
				}
			}
			rule := func(kinds ...string) []*consolev1.RoleRule {
				return []*consolev1.RoleRule{{Verbs: []string{"view"}, Kinds: kinds}}
			}
			p.admin.must(t, &consolev1.Role{
				Metadata: meta("reviewer"), Spec: &consolev1.RoleSpec{Rules: rule("Recording")},
			},
				&consolev1.Role{Metadata: meta("anything"), Spec: &consolev1.RoleSpec{Rules: rule("*")}},
				grantFor("reviewers", "reviewer", "lea"), grantFor("all", "anything", "bob"))
			if got, err := p.lea.read(t); err != nil || got != want {
				t.Errorf("a reviewer reads %q, %v", got, err)
			}
			_, err := p.bob.read(t)
			wantCode(t, err, connect.CodeNotFound)
			list, err := p.lea.recordings.ListRecordings(t.Context(), &consolev1.ListRecordingsRequest{
				Cluster: "edge-1", Subject: "user:bob",
			})
			if err != nil || len(list.GetRecordings()) != 1 ||
				list.GetRecordings()[0].GetBytes() != int64(len(want)) || list.GetRecordings()[0].GetEndTime() == nil {
				t.Errorf("list %v, %v", list, err)
			}
			await.True(t, "who read it is in the trail",
				func() bool { return len(p.admin.eventsOf(t, "recording.read")) == 2 })
			// Also of those who leave the beginning out.
			p.admin.must(t, grantFor("more", "reviewer", "eve"))
			for _, after := range []int64{1, -1, 1} {
				if _, err := p.eve.recordings.ReadRecording(t.Context(), &consolev1.ReadRecordingRequest{
					Id: recordingID, After: after,
				}); err != nil {
					t.Error(err)
				}
			}
			await.True(t, "who read a part is in the trail",
				func() bool { return len(p.admin.eventsOf(t, "recording.read")) == 4 })
		})
	}
}

// At rest nothing of it can be read, and it is opened as long as its hub secret is among those of the file.
func TestRecordingsAreSealedByTheHubSecret(t *testing.T) {
	t.Parallel()
	p := newPeople(t, "")
	p.record(t)
	err := filepath.WalkDir(p.dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(file)
		if err == nil && bytes.Contains(data, []byte("what bob saw")) {
			t.Errorf("it can be read in %s", file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(p.dir, "hub.secret")
	rotate := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	old, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	rotate("another-secret-of-32-characters-\n")
	await.True(t, "the old secret is gone",
		func() bool { _, err := p.admin.read(t); return connect.CodeOf(err) == connect.CodeFailedPrecondition })
	rotate("another-secret-of-32-characters-\n" + string(old))
	await.True(t, "the old secret is back", func() bool { _, err := p.admin.read(t); return err == nil })
}

// A person who has shells recorded takes room from nobody: young recordings stay, a person has a share, and older ones
// go by whose take the most, with an entry in the trail.
func TestNobodyPushesOutRecordingsOfOthers(t *testing.T) {
	t.Parallel()
	for name, db := range eitherDatabase(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newHub(t, db).startWith(t, func(cfg *console.Config) { cfg.RecordingMaxBytes = 8000 })
			admin, tunnel := r.admin(t), r.service(t, identity.ServiceTunnel)
			ids := 0
			begin := func(user string, age time.Duration) (id string, err error) {
				ids++
				id = fmt.Sprintf("%s-%012d", recordingID[:16], ids)
				_, err = tunnel.recordings.BeginRecording(t.Context(), &consolev1.BeginRecordingRequest{
					Recording: &consolev1.Recording{
						Id: id, Cluster: "edge-1", Namespace: "shop", Pod: "web-0", Verb: "exec",
						Subject: "user:" + user, BeginTime: timestamppb.New(time.Now().Add(-age)),
					},
				})
				return id, err
			}
			add := func(id string, sequence int64, size int) error {
				_, err := tunnel.recordings.AppendRecording(t.Context(), &consolev1.AppendRecordingRequest{
					Id: id, Sequence: sequence, Data: bytes.Repeat([]byte("x"), size), End: true,
				})
				return err
			}
			shell := func(user string, age time.Duration, size int) string {
				t.Helper()
				id, err := begin(user, age)
				if err == nil {
					err = add(id, 1, size)
				}
				if err != nil {
					t.Fatalf("shell of %s: %v", user, err)
				}
				return id
			}
			const month = 30 * 24 * time.Hour
			old := shell("eve", month, 6000)
			shell("bob", 0, 1000)
			_, err := begin("bob", 0)
			wantCode(t, err, connect.CodeResourceExhausted, "user:bob", "one person")
			ada := shell("ada", 0, 500)
			if err := add(ada, 2, 400); err != nil {
				t.Error(err)
			}
			wantCode(t, add(ada, 3, 400), connect.CodeResourceExhausted, "one person")
			shell("dan", 0, 1000) // for which eve's of last month goes
			removed := admin.eventsOf(t, "recording.removed")
			if len(removed) != 1 || removed[0].GetName() != old || removed[0].GetCluster() != "edge-1" ||
				!strings.Contains(removed[0].GetReason(), "user:eve") {
				t.Errorf("removed, by the trail: %v", removed)
			}
			for _, user := range []string{"p1", "p2", "p3", "p4", "p5"} {
				shell(user, 0, 1000)
			}
			last, err := begin("p6", 0)
			if err != nil {
				t.Fatal(err)
			}
			wantCode(t, add(last, 1, 200), connect.CodeResourceExhausted, "not removed")
			if err := add(last, 1, 100); err != nil {
				t.Error(err)
			}
			_, err = begin("p7", 0)
			wantCode(t, err, connect.CodeResourceExhausted, "--recording-max-bytes")
			list, err := admin.recordings.ListRecordings(t.Context(), &consolev1.ListRecordingsRequest{})
			if err != nil || len(list.GetRecordings()) != 9 || len(admin.eventsOf(t, "recording.removed")) != 1 {
				t.Errorf("%d recordings, %v", len(list.GetRecordings()), err)
			}
		})
	}
}

// A recording of which its tunnel says nothing any more is shown as cut, with all that has come, until the tunnel is
// heard of again.
func TestARecordingWhoseTunnelWasKilledIsCut(t *testing.T) {
	t.Parallel()
	for name, db := range eitherDatabase(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPeople(t, db)
			tunnel := p.service(t, identity.ServiceTunnel)
			began := time.Now().Add(-10 * time.Minute)
			if _, err := tunnel.recordings.BeginRecording(t.Context(), &consolev1.BeginRecordingRequest{
				Recording: &consolev1.Recording{
					Id: recordingID, Cluster: "edge-1", Namespace: "shop", Pod: "web-0", Verb: "exec",
					Subject: "user:bob", BeginTime: timestamppb.New(began),
				},
			}); err != nil {
				t.Fatal(err)
			}
			shown := func() *consolev1.Recording {
				t.Helper()
				list, err := p.admin.recordings.ListRecordings(t.Context(), &consolev1.ListRecordingsRequest{})
				if err != nil || len(list.GetRecordings()) != 1 {
					t.Fatal(list, err)
				}
				read, err := p.admin.recordings.ReadRecording(t.Context(), &consolev1.ReadRecordingRequest{
					Id: recordingID,
				})
				if err != nil {
					t.Fatal(err)
				}
				if got, want := read.GetRecording(), list.GetRecordings()[0]; got.GetIncomplete() != want.GetIncomplete() || !got.GetEndTime().AsTime().Equal(want.GetEndTime().AsTime()) {
					t.Errorf("listed %v, read %v", want, got)
				}
				return list.GetRecordings()[0]
			}
			if r := shown(); !strings.Contains(r.GetIncomplete(), "cut") || r.GetEndTime() == nil ||
				!r.GetEndTime().AsTime().Equal(r.GetUpdateTime().AsTime()) {
				t.Errorf("ten minutes of silence: %v", r)
			}
			if _, err := tunnel.recordings.AppendRecording(t.Context(), &consolev1.AppendRecordingRequest{
				Id: recordingID, Sequence: 1,
			}); err != nil {
				t.Fatal(err)
			}
			if r := shown(); r.GetIncomplete() != "" || r.GetEndTime() != nil {
				t.Errorf("its tunnel was heard of: %v", r)
			}
			if _, err := tunnel.recordings.AppendRecording(t.Context(), &consolev1.AppendRecordingRequest{
				Id: recordingID, Sequence: 1, Data: []byte("{}\n"), End: true,
			}); err != nil {
				t.Fatal(err)
			}
			if r := shown(); r.GetIncomplete() != "" || r.GetEndTime() == nil || r.GetBytes() != 3 {
				t.Errorf("it has ended: %v", r)
			}
		})
	}
}
