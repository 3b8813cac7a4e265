package git_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/services/gitcache/internal/git"
)

const text = "00017f80ff4b825dc642cb6eb9a060e54bf8d692"

func hash() git.Hash {
	return git.Hash{
		0x00, 0x01, 0x7f, 0x80, 0xff, 0x4b, 0x82, 0x5d, 0xc6, 0x42,
		0xcb, 0x6e, 0xb9, 0xa0, 0x60, 0xe5, 0x4b, 0xf8, 0xd6, 0x92,
	}
}

func TestAHashIsReadAndWritten(t *testing.T) {
	t.Parallel()
	for _, s := range []string{text, strings.ToUpper(text)} {
		if got, ok := git.ParseHash(s); !ok || got != hash() || !git.IsHash(s) || git.HashOf(s) != hash() {
			t.Errorf("%s is read as %s, %t", s, got, ok)
		}
	}
	if got := hash().String(); got != text {
		t.Errorf("written as %s", got)
	}
	if got := fmt.Sprintf("%s %v %.8s", hash(), hash(), hash()); got != text+" "+text+" "+text[:8] {
		t.Errorf("printed as %s", got)
	}
}

func TestWhatIsNoHashIsZero(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		"", "01", text[:39], text + "0", text[:39] + "g", "g" + text[1:], " " + text[1:], text[:38] + "é",
		strings.Repeat("1", 64), // of a repository with SHA-256
	} {
		if got, ok := git.ParseHash(s); ok || !got.IsZero() || git.IsHash(s) || !git.HashOf(s).IsZero() {
			t.Errorf("%q is read as %s", s, got)
		}
	}
	if hash().IsZero() {
		t.Errorf("%s is zero", hash())
	}
}

// TestAHashInJSONIsNumbers: files on disk and what replicas send each other are written like this.
func TestAHashInJSONIsNumbers(t *testing.T) {
	t.Parallel()
	type head struct {
		Commit git.Hash   `json:"commit"`
		Others []git.Hash `json:"others"`
	}
	const list = "[0,1,127,128,255,75,130,93,198,66,203,110,185,160,96,229,75,248,214,146]"
	const want = `{"commit":` + list + `,"others":[` + list + `]}`
	b, err := json.Marshal(head{hash(), []git.Hash{hash()}})
	if err != nil || string(b) != want {
		t.Errorf("written as %s, %v", b, err)
	}
	var got head
	if err := json.Unmarshal([]byte(want), &got); err != nil ||
		got.Commit != hash() || !slices.Equal(got.Others, []git.Hash{hash()}) {
		t.Errorf("read as %v, %v", got, err)
	}
}

func TestHashesAreOrderedAsTheirTexts(t *testing.T) {
	t.Parallel()
	ids := []git.Hash{{1}, {}, {0xff}, {0, 2}, {0x80}, hash()}
	slices.SortFunc(ids, git.Hash.Compare)
	if !slices.IsSortedFunc(ids, func(a, b git.Hash) int { return strings.Compare(a.String(), b.String()) }) {
		t.Errorf("sorted %v", ids)
	}
}

func TestTextOfAHashIsAllocatedOnce(t *testing.T) {
	h, s, ok := hash(), "", false
	if n := testing.AllocsPerRun(100, func() { s = h.String() }); n > 1 || s != text {
		t.Errorf("String allocates %g times", n)
	}
	if n := testing.AllocsPerRun(100, func() { h, ok = git.ParseHash(text) }); n > 0 || !ok {
		t.Errorf("ParseHash allocates %g times", n)
	}
}

func TestKindsHaveTheNumbersAndWordsOfGit(t *testing.T) {
	t.Parallel()
	for i, word := range []string{"unknown", "commit", "tree", "blob", "tag", "unknown"} {
		if got := git.Kind(i).String(); got != word {
			t.Errorf("kind %d is %q", i, got)
		}
	}
	if git.UnknownKind != 0 || git.Commit != 1 || git.Tree != 2 || git.Blob != 3 || git.Tag != 4 {
		t.Error("kinds have other numbers than in packs")
	}
}
