package pack

import (
	"bytes"
	"crypto/sha1" // what is forged
	"encoding/hex"
	"testing"

	"fairlead.dev/services/gitcache/internal/git"
)

// twins are the beginnings of the two files of the collision that was published in 2017 (shattered.io): they have the
// same SHA-1.
func twins(t *testing.T) (one, other []byte) {
	t.Helper()
	const before = "%PDF-1.3\n%\xe2\xe3\xcf\xd3\n\n\n1 0 obj\n<</Width 2 0 R/Height 3 0 R/Type 4 0 R/Subtype 5 0 R/Filter 6 0 R/ColorSpace 7 0 R/Length 8 0 R/BitsPerComponent 8>>\nstream\n\xff\xd8\xff\xfe\x00$SHA-1 is dead!!!!!\x85/\xec\t#9u\x9c9\xb1\xa1\xc6<L\x97\xe1\xff\xfe\x01"
	for _, blocks := range []string{
		"7346dc9166b67e118f029ab621b2560ff9ca67cca8c7f85ba84c79030c2b3de218f86db3a90901d5df45c14f26fedfb3dc38e96ac22fe7bd728f0e45bce046d23c570feb141398bb552ef5a0a82be331fea48037b8b5d71f0e332edf93ac3500eb4ddc0decc1a864790c782c76215660dd309791d06bd0af3f98cda4bc4629b1",
		"7f46dc93a6b67e013b029aaa1db2560b45ca67d688c7f84b8c4c791fe02b3df614f86db1690901c56b45c1530afedfb76038e972722fe7ad728f0e4904e046c230570fe9d41398abe12ef5bc942be33542a4802d98b5d70f2a332ec37fac3514e74ddc0f2cc1a874cd0c78305a21566461309789606bd0bf3f98cda8044629a1",
	} {
		bytes, err := hex.DecodeString(blocks)
		if err != nil {
			t.Fatal(err)
		}
		one, other = other, append([]byte(before), bytes...)
	}
	if bytes.Equal(one, other) || sha1.Sum(one) != sha1.Sum(other) {
		t.Fatal("these are no twins")
	}
	return one, other
}

// A namer has other names for both of two forged contents than SHA-1 has, so that no forgery is what a list of names
// promises.
func TestForgedTwinsHaveNoNameInCommon(t *testing.T) {
	t.Parallel()
	one, other := twins(t)
	n := newNamer()
	names := map[git.Hash]bool{sha1.Sum(one): true}
	for _, content := range [][]byte{one, other} {
		n.Reset()
		_, _ = n.Write(content) // a hash takes everything
		if id := n.sumName(); names[id] {
			t.Errorf("%s is the name of both", id)
		} else {
			names[id] = true
		}
	}
	if a, b := Name(git.Blob, one), Name(git.Blob, other); a == b {
		t.Errorf("as blobs both are %s", a)
	}
}
