package gitwire

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"

	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/upstream"
)

func FuzzDecodeListing(f *testing.F) {
	f.Add([]byte("001e# service=git-upload-pack\n00000035" +
		"1111111111111111111111111111111111111111 HEAD\x00side-band-64k\n0000"))
	f.Add([]byte("0000"))
	f.Add([]byte("000eversion 2\n0015agent=git/2.39.5\n0013ls-refs=unborn\n0012fetch=shallow\n0017object-format=sha1\n0000"))
	f.Add([]byte("000eversion 1\n0000"))
	f.Add([]byte("001e# service=git-upload-pack\n0000000eERR no way0000"))
	f.Add(manyRefs(3))
	f.Add([]byte("003d1111111111111111111111111111111111111111 refs/tags/v1\x00x\n003f2222222222222222222222222222222222222222 refs/tags/v1^{}\n0035shallow 1111111111111111111111111111111111111111\n0000"))
	f.Add([]byte("00490000000000000000000000000000000000000000 capabilities^{}\x00ofs-delta agent=x\n0000"))
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := DecodeAdvertised(NewLines(bytes.NewReader(b)), Names{})
		if err != nil {
			return
		}
		if l == nil || l.Refs == nil || (l.Capabilities == nil) != l.Version2 {
			t.Fatal("no error and no listing")
		}
		for tag := range l.Peeled {
			if _, ok := l.Refs[tag]; !ok {
				t.Errorf("%q stands for something, and is not listed", tag)
			}
		}
		for name := range l.Refs {
			if !ValidRef(name) || l.Refs[name].IsZero() {
				t.Errorf("%q is listed", name)
			}
		}
		// A list that go-git reads as well, the decoder reads the same way.
		adv := packp.NewAdvRefs()
		if func() (err error) { defer recoverTo(&err); return adv.Decode(bytes.NewReader(b)) }() != nil {
			return
		}
		for name, id := range adv.References {
			if got, ok := l.Refs[name]; ValidRef(name) && !id.IsZero() && name != refPrefixHead && (!ok || got != git.Hash(id)) {
				t.Errorf("%q is %s, go-git says %s", name, got, id)
			}
		}
	})
}

func FuzzListRefs(f *testing.F) {
	id := strings.Repeat("1", 40)
	for _, text := range []string{
		"", "unborn HEAD symref-target:refs/heads/main\n", id + " HEAD\n",
		id + " refs/tags/v1 peeled:" + strings.Repeat("2", 40) + "\n",
		id + " refs/heads/a.lock\n", id + " refs/heads/a b c\n", "ERR no way", id + " refs/tags/v1 peeled:\n",
		id + "\n",
	} {
		f.Add([]byte(fmt.Sprintf("%04x%s0000", len(text)+4, text)))
	}
	f.Add([]byte("00010002"))
	f.Fuzz(func(t *testing.T, b []byte) {
		all, some := NewListing2(nil, Names{}), NewListing2(nil,
			Names{Refs: []string{"HEAD"}, Prefixes: []string{"refs/tags/v"}})
		err := NewLines(bytes.NewReader(b)).ListRefs(all, Names{})
		_ = NewLines(bytes.NewReader(b)).ListRefs(some,
			Names{Refs: []string{"HEAD"}, Prefixes: []string{"refs/tags/v"}})
		if there, no := NewLines(bytes.NewReader(b)).AnyRef(); err == nil && len(all.Refs) > 0 &&
			(no != nil || !there) {
			t.Errorf("%d refs are listed, and any: %v, %v", len(all.Refs), there, no)
		}
		for name, id := range all.Refs {
			if !ValidRef(name) || id.IsZero() {
				t.Errorf("%q %s is listed", name, id)
			}
			if got, ok := some.Refs[name]; err == nil &&
				(ok != (name == "HEAD" || strings.HasPrefix(name, "refs/tags/v")) || ok && got != id) {
				t.Errorf("%q of some is %s, %v", name, got, ok)
			}
		}
		for name := range some.Refs {
			if name != "HEAD" && !strings.HasPrefix(name, "refs/tags/v") {
				t.Errorf("%q was not asked for", name)
			}
		}
		for tag := range all.Peeled {
			if _, ok := all.Refs[tag]; !ok {
				t.Errorf("%q stands for something, and is not listed", tag)
			}
		}
	})
}

func FuzzDecodePack(f *testing.F) {
	f.Add([]byte("0008NAK\n0011\x01PACK\x00\x00\x00\x02\x00\x00\x00\x050000"))
	f.Add([]byte("0031ACK 1111111111111111111111111111111111111111\n0006\x02x0005\x030000"))
	f.Add([]byte("0008NAK\n0004"))
	f.Add([]byte("000dpackfile\n0011\x01PACK\x00\x00\x00\x02\x00\x00\x00\x050000"))
	f.Add([]byte("0011shallow-info\n0035shallow 1111111111111111111111111111111111111111\n0001000dpackfile\n0011\x01PACK\x00\x00\x00\x02\x00\x00\x00\x050000"))
	f.Add([]byte("000eERR no way"))
	f.Fuzz(func(_ *testing.T, b []byte) {
		caps := capability.NewList()
		_ = caps.Set(capability.Sideband64k)
		ask, err := newAsk(&Listing{Capabilities: caps}, []git.Hash{{1}}, nil)
		if err != nil {
			panic(err)
		}
		for _, ask := range []Ask{ask, ask2{}} {
			pack, err := ask.decode(bytes.NewReader(b))
			if err == nil {
				_, _ = io.Copy(io.Discard, upstream.CapReader(pack, 1<<20, "pack"))
			}
		}
	})
}

func FuzzParseURL(f *testing.F) {
	for _, s := range []string{
		"https://git.example.com/shop.git", "git@git.example.com:shop.git", "ssh://git@git.example.com:22/shop.git",
		"http://[::1]:80/x",
		"https://[::ffff:127.0.0.1]/x", "https://ada:s3cret@x/y", "ext::sh -c id", "https://x/%2e%2e/y",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := upstream.ParseURL(raw)
		if err != nil {
			return
		}
		// The request and the key for comparison can be made of every URL, and hold no user.
		req, err := upstream.NewRequest(t.Context(), upstream.Remote{URL: u}, "GET", u.JoinPath("info", "refs"), nil)
		if u.Scheme == "ssh" {
			return
		}
		if err != nil || req.URL.Host != u.Host || req.Header.Get("Authorization") != "" {
			t.Errorf("%q: %v", raw, err)
		}
		if upstream.HostPort(u) == "" || upstream.OriginOf(u) != upstream.OriginOf(req.URL) || strings.Contains(upstream.ShowURL(u), "@"+u.Host) {
			t.Errorf("%q is at %s", raw, upstream.OriginOf(u))
		}
	})
}
