package hubsecret

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const (
	older = "the secret that was before"
	newer = "the secret that is signed with"
)

func TestTheFirstSecretSignsAndAllAreAccepted(t *testing.T) {
	t.Parallel()
	before, during, after := Text(older+"\n"), Text(newer+"\n"+older+"\n"), Text(newer)
	message := []byte("hello")
	mac := func(f *File) []byte {
		sum, err := f.Sign(Members, message)
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	accepts := func(f *File, mac []byte) bool {
		ok, err := f.Verify(Members, message, mac)
		return ok && err == nil
	}
	for name, got := range map[string]bool{
		"new by old":    !accepts(before, mac(during)),
		"old by both":   accepts(during, mac(before)),
		"new by both":   accepts(during, mac(after)),
		"old by new":    !accepts(after, mac(before)),
		"first signs":   accepts(after, mac(during)),
		"other purpose": !func() bool { ok, _ := during.Verify(Audiences, message, mac(during)); return ok }(),
	} {
		if !got {
			t.Errorf("%s: not so", name)
		}
	}
	for secret, want := range map[string]bool{
		older: true, newer: true, newer + "\n" + older: true, "": false, "another": false, older[:10]: false,
	} {
		if got, err := during.Accepts(secret); got != want || err != nil {
			t.Errorf("%q is accepted: %t, %v", secret, got, err)
		}
	}
}

func TestASecretOfSeveralLinesStaysOne(t *testing.T) {
	t.Parallel()
	// `openssl rand -base64 50` writes a line of 64 and one of 4 characters.
	long := strings.Repeat("a", 64) + "\nb3M="
	all, err := Text(long + "\n").All()
	if err != nil || !slices.Equal(all, []string{long}) {
		t.Errorf("got %q, %v", all, err)
	}
}

func TestAReplacedFileCountsAndOneThatIsAwayDoesNot(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "secret")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		f := Open(path)
		if _, err := f.First(); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("a file that is not there: %v", err)
		}
		for _, step := range []struct {
			change func()
			want   string
		}{
			{func() { write(older) }, older},
			{func() { write(newer + "\n" + older) }, newer},
			{func() { _ = os.Remove(path) }, newer},
			{func() { write("") }, newer},
			{func() { write(older) }, older},
		} {
			step.change()
			<-time.After(readEvery)
			if got, err := f.First(); got != step.want || err != nil {
				t.Errorf("got %q, %v, want %q", got, err, step.want)
			}
		}
	})
}

// A person empties the file by mistake: services go on, and say so.
func TestAFileThatCannotBeReadAgainIsTold(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "secret")
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		f := Open(path)
		f.Log = slog.New(slog.NewTextHandler(&log, nil))
		for _, step := range []struct {
			text             string
			isStuck          bool
			warnings, repair int
		}{{older, false, 0, 0}, {"", true, 1, 0}, {"\n", true, 1, 0}, {older, false, 1, 1}} {
			if err := os.WriteFile(path, []byte(step.text), 0o600); err != nil {
				t.Fatal(err)
			}
			<-time.After(readEvery)
			if got, err := f.First(); got != older || err != nil {
				t.Errorf("%q: got %q, %v", step.text, got, err)
			}
			if err := f.Stuck(); (err != nil) != step.isStuck || err != nil && !strings.Contains(err.Error(), path+": it is empty") {
				t.Errorf("%q: %v", step.text, err)
			}
			if w, i := strings.Count(log.String(), "WARN"), strings.Count(log.String(), "INFO"); w != step.warnings || i != step.repair {
				t.Errorf("%q: %d warnings and %d repairs: %s", step.text, w, i, log.String())
			}
		}
	})
	if _, err := Open(os.DevNull).First(); err == nil || !strings.Contains(err.Error(), os.DevNull) {
		t.Errorf("the file is not named: %v", err)
	}
}

func TestSecretsThatAreNoneAreRefused(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"empty": "\n", "many": strings.Repeat("x", 20) + strings.Repeat("\n0123456789abcdef", 1) + numbered(9),
		"short": "short",
	} {
		path := filepath.Join(t.TempDir(), "secret")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if all, err := Read(path); err == nil {
			t.Errorf("%s: %q", name, all)
		}
	}
}

func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("\n0123456789abcdef" + string(rune('a'+i)))
	}
	return b.String()
}
