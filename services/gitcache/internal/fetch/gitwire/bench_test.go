package gitwire

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
)

func manyRefs(refs int) []byte {
	var b bytes.Buffer
	line := func(s string) { fmt.Fprintf(&b, "%04x%s", len(s)+4, s) }
	line("# service=git-upload-pack\n")
	b.WriteString("0000")
	for i := range refs {
		caps := ""
		if i == 0 {
			caps = "\x00multi_ack thin-pack side-band side-band-64k ofs-delta shallow deepen-since deepen-not deepen-relative no-progress include-tag multi_ack_detailed allow-tip-sha1-in-want allow-reachable-sha1-in-want no-done symref=HEAD:refs/heads/main filter object-format=sha1 agent=git/github-f1a2b3"
		}
		line(fmt.Sprintf("%040x refs/heads/feature/b%06d%s\n", i+1, i, caps))
	}
	b.WriteString("0000")
	return b.Bytes()
}

func BenchmarkListing(b *testing.B) {
	for _, n := range []int{10, 5000} {
		text := manyRefs(n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if l, err := DecodeAdvertised(NewLines(bytes.NewReader(text)), Names{}); err != nil ||
					len(l.Refs) != n {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprint("go-git ", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := packp.NewAdvRefs().Decode(bytes.NewReader(text)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
