package console_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"connectrpc.com/connect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/identity"
)

const recordingID = "019a8b2f4c11d0e6a1b2c3d4e5f60718"

// record has a tunnel make a recording of bob's shell, in two pieces.
func (p people) record(t *testing.T) {
	t.Helper()
	tunnel := p.service(t, identity.ServiceTunnel)
	if _, err := tunnel.recordings.BeginRecording(t.Context(), &consolev1.BeginRecordingRequest{Recording: &consolev1.Recording{
		Id: recordingID, Cluster: "edge-1", Namespace: "shop", Pod: "web-0", Verb: "exec", Subject: "user:bob",
	}}); err != nil {
		t.Fatal(err)
	}
	for i, text := range []string{"{\"version\":2}\n", "[1.0, \"o\", \"what bob saw\"]\n"} {
		req := &consolev1.AppendRecordingRequest{Id: recordingID, Sequence: int64(i + 1), Data: []byte(text), End: i == 1}
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
		res, err := a.recordings.ReadRecording(t.Context(), &consolev1.ReadRecordingRequest{Id: recordingID, After: after})
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
	for name, db := range map[string]string{"sqlite": "", "postgres": postgres.Database(t)} {
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
			p.admin.must(t, &consolev1.Role{Metadata: meta("reviewer"), Spec: &consolev1.RoleSpec{Rules: rule("Recording")}},
				&consolev1.Role{Metadata: meta("anything"), Spec: &consolev1.RoleSpec{Rules: rule("*")}},
				grantFor("reviewers", "reviewer", "lea"), grantFor("all", "anything", "bob"))
			if got, err := p.lea.read(t); err != nil || got != want {
				t.Errorf("a reviewer reads %q, %v", got, err)
			}
			_, err := p.bob.read(t)
			wantCode(t, err, connect.CodeNotFound)
			list, err := p.lea.recordings.ListRecordings(t.Context(), &consolev1.ListRecordingsRequest{Cluster: "edge-1", Subject: "user:bob"})
			if err != nil || len(list.GetRecordings()) != 1 || list.GetRecordings()[0].GetBytes() != int64(len(want)) || list.GetRecordings()[0].GetEndTime() == nil {
				t.Errorf("list %v, %v", list, err)
			}
			await(t, "who read it is in the trail", func() bool { return len(p.admin.eventsOf(t, "recording.read")) == 2 })
			// Also of those who leave the beginning out.
			p.admin.must(t, grantFor("more", "reviewer", "eve"))
			for _, after := range []int64{1, -1, 1} {
				if _, err := p.eve.recordings.ReadRecording(t.Context(), &consolev1.ReadRecordingRequest{Id: recordingID, After: after}); err != nil {
					t.Error(err)
				}
			}
			await(t, "who read a part is in the trail", func() bool { return len(p.admin.eventsOf(t, "recording.read")) == 4 })
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
	await(t, "the old secret is gone", func() bool { _, err := p.admin.read(t); return connect.CodeOf(err) == connect.CodeFailedPrecondition })
	rotate("another-secret-of-32-characters-\n" + string(old))
	await(t, "the old secret is back", func() bool { _, err := p.admin.read(t); return err == nil })
}
