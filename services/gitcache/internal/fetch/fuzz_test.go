package fetch

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
)

func FuzzDecodeListing(f *testing.F) {
	f.Add([]byte("001e# service=git-upload-pack\n00000035" + "1111111111111111111111111111111111111111 HEAD\x00side-band-64k\n0000"))
	f.Add([]byte("0000"))
	f.Add([]byte("001e# service=git-upload-pack\n0000000eERR no way0000"))
	f.Add(manyRefs(3))
	f.Add([]byte("003d1111111111111111111111111111111111111111 refs/tags/v1\x00x\n003f2222222222222222222222222222222222222222 refs/tags/v1^{}\n0035shallow 1111111111111111111111111111111111111111\n0000"))
	f.Add([]byte("00490000000000000000000000000000000000000000 capabilities^{}\x00ofs-delta agent=x\n0000"))
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := decodeListing(bytes.NewReader(b))
		if err != nil {
			return
		}
		if l == nil || l.Refs == nil || l.capabilities == nil {
			t.Fatal("no error and no listing")
		}
		for tag := range l.Peeled {
			if _, ok := l.Refs[tag]; !ok {
				t.Errorf("%q stands for something, and is not listed", tag)
			}
		}
		for name := range l.Refs {
			if !validRef(name) || l.Refs[name].IsZero() {
				t.Errorf("%q is listed", name)
			}
		}
		// What go-git reads as well, it reads the same way.
		adv := packp.NewAdvRefs()
		if func() (err error) { defer recoverTo(&err); return adv.Decode(bytes.NewReader(b)) }() != nil {
			return
		}
		for name, id := range adv.References {
			if got, ok := l.Refs[name]; validRef(name) && !id.IsZero() && name != refPrefixHead && (!ok || got != id) {
				t.Errorf("%q is %s, go-git says %s", name, got, id)
			}
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

func FuzzParseURL(f *testing.F) {
	for _, s := range []string{
		"https://git.example.com/shop.git", "git@git.example.com:shop.git", "ssh://git@git.example.com:22/shop.git", "http://[::1]:80/x",
		"https://[::ffff:127.0.0.1]/x", "https://ada:s3cret@x/y", "ext::sh -c id", "https://x/%2e%2e/y",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := ParseURL(raw)
		if err != nil {
			return
		}
		// What is asked for and what is compared can be made of every URL, and holds no user.
		req, err := request(t.Context(), Remote{URL: u}, "GET", u.JoinPath("info", "refs"), nil)
		if u.Scheme == "ssh" {
			return
		}
		if err != nil || req.URL.Host != u.Host || req.Header.Get("Authorization") != "" {
			t.Errorf("%q: %v", raw, err)
		}
		if place(u) == "" || origin(u) != origin(req.URL) || strings.Contains(show(u), "@"+u.Host) {
			t.Errorf("%q is at %s", raw, origin(u))
		}
	})
}
