package admin_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"fairlead.dev/cli/internal/clitest"
	"fairlead.dev/cli/internal/hubtest"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
)

// streams answers with the pieces of a backup, then with a sum, if there is one, then with an error, if there is one.
func streams(fails error, sum string, pieces ...string) []hubtest.Answer {
	var messages []*consolev1.BackupResponse
	for _, piece := range pieces {
		messages = append(messages, &consolev1.BackupResponse{Data: []byte(piece)})
	}
	if sum != "" {
		messages = append(messages, &consolev1.BackupResponse{Sha256: sum})
	}
	return []hubtest.Answer{hubtest.OnStream[consolev1.BackupRequest](
		consolev1connect.AdminServiceBackupProcedure, fails, messages...)}
}

// sumOf is what pieces hash to.
func sumOf(pieces ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(pieces, "")))
	return hex.EncodeToString(sum[:])
}

func TestABackupIsThereWhenItIsWhole(t *testing.T) {
	t.Parallel()
	before := map[string]string{"hub.backup": "of yesterday"}
	hubtest.Run(t, map[string]hubtest.Case{
		"whole": {
			Line: "admin backup FOLDER/hub.backup", Files: before, Hub: streams(nil, sumOf("one", "two"), "one", "two"),
			Left:   map[string]string{"hub.backup": "onetwo"},
			Asked:  "Backup {}\n",
			Stdout: "FOLDER/hub.backup: 6 bytes\n",
		},
		"damaged on its way": {
			Line: "admin backup FOLDER/hub.backup", Files: before, Hub: streams(nil, sumOf("other"), "one"), Left: before,
			Asked: "Backup {}\n",
			Err:   "the backup was damaged on its way: try again",
		},
		"cut off without an error": {
			Line: "admin backup FOLDER/hub.backup", Files: before, Hub: streams(nil, "", "one"), Left: before,
			Asked: "Backup {}\n",
			Err:   "the console ended the backup before it was whole: try again",
		},
		"cut off by an error": {
			Line: "admin backup FOLDER/hub.backup", Files: before,
			Hub:   streams(connect.NewError(connect.CodeUnavailable, errors.New("the database does not answer")), "", "one"),
			Left:  before,
			Asked: "Backup {}\n",
			Err:   "the database does not answer",
		},
		"by somebody who may not": {
			Line: "admin backup FOLDER/hub.backup",
			Hub: streams(connect.NewError(connect.CodePermissionDenied,
				errors.New("Backup: it is for administrator")), ""),
			Left:  map[string]string{},
			Asked: "Backup {}\n",
			Err: "Backup: it is for administrators, who are the members of group fairlead:admins: ask one of " +
				"them",
		},
		"into a folder that is not there": {
			Line: "admin backup FOLDER/nope/hub.backup", Hub: streams(nil, sumOf("one"), "one"),
			Err: "folder of the backup: FOLDER/nope does not exist",
		},
		"to nowhere": {
			Line: "admin backup",
			Err:  "use it as `fairlead admin backup FILE | DIR --keep N`: see `fairlead admin backup --help`",
		},
	})
}

func TestTheNewestBackupsAreKept(t *testing.T) {
	t.Parallel()
	const now = "fairlead-20260301T120000.000Z.backup" // the time of the tests
	const second = "fairlead-20260301T120000.001Z.backup"
	const ahead = "its name is later than now, and it stays while others are deleted: a clock was ahead then, or is " +
		"behind now. Set the clock right, and rename or delete the file\n"
	whole := streams(nil, sumOf("one"), "one")
	days := map[string]string{
		"fairlead-20260227T120000Z.backup": "a", "fairlead-20260228T120000Z.backup": "b", "notes.txt": "mine",
		"fairlead-by-hand.backup": "c",
	}
	// halves of a backup that was killed: one of before, and one that is being written.
	const old, young = ".fairlead-20260227T120000Z.backup.tmp-1", ".fairlead-20260301T115959Z.backup.tmp-2"
	age := func(t *testing.T, folder string) {
		t.Helper()
		for name, at := range map[string]time.Time{
			old: clitest.Noon().Add(-2 * time.Hour), young: clitest.Noon().Add(-time.Minute),
		} {
			if err := os.Chtimes(filepath.Join(folder, name), at, at); err != nil {
				t.Fatal(err)
			}
		}
	}
	hubtest.Run(t, map[string]hubtest.Case{
		"the first": {
			Line: "admin backup FOLDER --keep 3", Hub: whole, Left: map[string]string{now: "one"},
			Asked:  "Backup {}\n",
			Stdout: "FOLDER/fairlead-20260301T120000.000Z.backup: 3 bytes\n",
		},
		"the third of two": {
			Line: "admin backup FOLDER --keep 2", Files: days, Hub: whole,
			Left: map[string]string{
				now: "one", "fairlead-20260228T120000Z.backup": "b", "notes.txt": "mine", "fairlead-by-hand.backup": "c",
			},
			Asked: "Backup {}\n",
			Stdout: `FOLDER/fairlead-20260301T120000.000Z.backup: 3 bytes
FOLDER/fairlead-20260227T120000Z.backup: deleted
`,
		},
		"of the same second": {
			Line:  "admin backup FOLDER --keep 2",
			Files: map[string]string{"fairlead-20260301T115959.999Z.backup": "a", second: "b"}, Hub: whole,
			Left:  map[string]string{now: "one", second: "b"},
			Asked: "Backup {}\n",
			Stdout: "FOLDER/fairlead-20260301T120000.000Z.backup: 3 bytes\n" +
				"FOLDER/fairlead-20260301T115959.999Z.backup: deleted\n",
			Stderr: "FOLDER/" + second + ": " + ahead,
		},
		"beside one with a later name": {
			Line:  "admin backup FOLDER --keep 1",
			Files: map[string]string{"fairlead-20270101T000000.000Z.backup": "a"}, Hub: whole,
			Left:  map[string]string{now: "one"},
			Asked: "Backup {}\n",
			Stdout: "FOLDER/fairlead-20260301T120000.000Z.backup: 3 bytes\n" +
				"FOLDER/fairlead-20270101T000000.000Z.backup: deleted\n",
		},
		"of two, beside one with a later name": {
			Line: "admin backup FOLDER --keep 2", Hub: whole,
			Files: map[string]string{
				"fairlead-20260228T120000Z.backup": "b", "fairlead-20270101T000000.000Z.backup": "a",
			},
			Left:  map[string]string{now: "one", "fairlead-20270101T000000.000Z.backup": "a"},
			Asked: "Backup {}\n",
			Stdout: "FOLDER/fairlead-20260301T120000.000Z.backup: 3 bytes\n" +
				"FOLDER/fairlead-20260228T120000Z.backup: deleted\n",
			Stderr: "FOLDER/fairlead-20270101T000000.000Z.backup: " + ahead,
		},
		"none is deleted for one that failed": {
			Line: "admin backup FOLDER --keep 1", Files: days, Hub: streams(nil, "", "one"), Left: days,
			Asked: "Backup {}\n",
			Err:   "the console ended the backup before it was whole: try again",
		},
		"halves of before are deleted": {
			Line: "admin backup FOLDER --keep 1", Files: map[string]string{old: "ha", young: "hal"}, Prepare: age, Hub: whole,
			Left:   map[string]string{now: "one", young: "hal"},
			Asked:  "Backup {}\n",
			Stdout: "FOLDER/fairlead-20260301T120000.000Z.backup: 3 bytes\n",
		},
		"none": {
			Line: "admin backup FOLDER --keep 0",
			Err:  "--keep 0: must be at least 1, the backup that is made now",
		},
	})
}

func TestARestoreSaysWhatItNeeds(t *testing.T) {
	t.Parallel()
	some := map[string]string{"some.backup": "text"}
	key := base64.StdEncoding.EncodeToString(make([]byte, 32))
	hubtest.Run(t, map[string]hubtest.Case{
		"a file": {
			Line: "admin restore",
			Err:  "use it as `fairlead admin restore FILE`: see `fairlead admin restore --help`",
		},
		"a file that is there": {
			Line: "admin restore FOLDER/nope.backup --data-dir FOLDER",
			Err:  "FOLDER/nope.backup does not exist",
		},
		"a folder of data": {
			Line: "admin restore FOLDER/some.backup", Files: some,
			Err: "restore FOLDER/some.backup: --data-dir is missing: name a folder for the console's state",
		},
		"a folder that is there": {
			Line: "admin restore FOLDER/some.backup --data-dir FOLDER/nope", Files: some,
			Err: "restore FOLDER/some.backup: there is no folder FOLDER/nope: is it the right one? For a new " +
				"console make it, and put the master key that the backup was made with there, as master.key",
		},
		"the master key": {
			Line: "admin restore FOLDER/some.backup --data-dir FOLDER", Files: some,
			Err: "restore FOLDER/some.backup: read master key: FOLDER/master.key does not exist: " +
				"put the master key that the backup was made with there, or name it with " +
				"--master-key-file",
		},
		"a backup, and no other file": {
			Line:  "admin restore FOLDER/some.backup --data-dir FOLDER",
			Files: map[string]string{"some.backup": "text", "master.key": key},
			Err:   "restore FOLDER/some.backup: is not a whole backup: unexpected EOF",
		},
		"a database that is known": {
			Line:  "admin restore FOLDER/some.backup --data-dir FOLDER --database-url mysql://db",
			Files: map[string]string{"some.backup": "text", "master.key": key},
			Err:   "restore FOLDER/some.backup: database URL must begin with sqlite: or postgres://",
		},
	})
}
