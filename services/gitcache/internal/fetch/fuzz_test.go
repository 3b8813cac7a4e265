package fetch

import (
	"bytes"
	"io"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
)

func FuzzDecodeListing(f *testing.F) {
	f.Add([]byte("001e# service=git-upload-pack\n00000035" + "1111111111111111111111111111111111111111 HEAD\x00side-band-64k\n0000"))
	f.Add([]byte("0000"))
	f.Add([]byte("001e# service=git-upload-pack\n0000000eERR no way0000"))
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := decodeListing(bytes.NewReader(b))
		if err == nil && (l == nil || l.Refs == nil || l.capabilities == nil) {
			t.Error("no error and no listing")
		}
	})
}

func FuzzDecodePack(f *testing.F) {
	f.Add([]byte("0008NAK\n0011\x01PACK\x00\x00\x00\x02\x00\x00\x00\x050000"))
	f.Add([]byte("0031ACK 1111111111111111111111111111111111111111\n0006\x02x0005\x030000"))
	f.Add([]byte("0008NAK\n0004"))
	f.Fuzz(func(_ *testing.T, b []byte) {
		caps := capability.NewList()
		_ = caps.Set(capability.Sideband64k)
		ask, err := newAsk(&Listing{capabilities: caps}, []plumbing.Hash{{1}}, nil)
		if err != nil {
			panic(err)
		}
		pack, err := decodePack(ask, bytes.NewReader(b))
		if err == nil {
			_, _ = io.Copy(io.Discard, &capped{r: pack, left: 1 << 20, most: 1 << 20, what: "pack"})
		}
	})
}
