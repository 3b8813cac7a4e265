package githost

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1" //nolint:gosec // packs end with it
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Advertisement begins a list of refs in version 0 of the protocol.
const Advertisement = "001e# service=git-upload-pack\n0000"

// Line is a line of the protocol.
func Line(text string) string { return fmt.Sprintf("%04x%s", len(text)+4, text) }

// Lies answers the list of refs with one head, and every fetch with these bytes.
func Lies(pack []byte) http.HandlerFunc {
	id := strings.Repeat("1", 40)
	list := Advertisement + Line(id+" HEAD\x00symref=HEAD:refs/heads/main ofs-delta\n") + Line(id+" refs/heads/main\n") + "0000"
	return func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/info/refs") {
			w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
			_, _ = io.WriteString(w, list) // the gitcache says what it makes of it
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
		_, _ = w.Write(append([]byte("0008NAK\n"), pack...)) // as above
	}
}

// Pack puts objects into a pack: header bytes, then content, deflated.
func Pack(count uint32, objects ...[]byte) []byte {
	pack := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32([]byte("PACK"), 2), count)
	for _, object := range objects {
		pack = append(pack, object...)
	}
	sum := sha1.Sum(pack) //nolint:gosec // as above
	return append(pack, sum[:]...)
}

// Kinds of a pack's objects.
const (
	Commit   = 1
	Blob     = 3
	OfsDelta = 6
)

// Object is one object: its kind, the size that it says it has, what stands between (a delta's base), and its content.
func Object(kind byte, size uint64, base, content []byte) []byte {
	head := []byte{kind<<4 | byte(size&15)}
	for size >>= 4; size > 0; size >>= 7 {
		head[len(head)-1] |= 0x80
		head = append(head, byte(size&0x7f))
	}
	var body bytes.Buffer
	w, _ := zlib.NewWriterLevel(&body, zlib.BestCompression) // a level that there is
	_, _ = w.Write(content)                                  // never fails into memory
	_ = w.Close()
	return append(append(head, base...), body.Bytes()...)
}

// Bomb is a pack of some 100 KB that makes 2,000 objects of 512 MiB.
func Bomb() []byte {
	const deltas, copies, block = 2000, 32, 0xffffff
	base := Object(Blob, block, nil, make([]byte, block))
	varint := func(n uint64) (b []byte) {
		for ; n >= 0x80; n >>= 7 {
			b = append(b, byte(n)|0x80)
		}
		return append(b, byte(n))
	}
	delta := append(varint(block), varint(copies*block)...)
	for range copies {
		delta = append(delta, 0x80|0x70, 0xff, 0xff, 0xff)
	}
	objects := [][]byte{base}
	offset := len(base)
	for range deltas {
		back := []byte{byte(offset & 0x7f)}
		for n := offset >> 7; n > 0; n >>= 7 {
			n--
			back = append([]byte{byte(n&0x7f) | 0x80}, back...)
		}
		object := Object(OfsDelta, uint64(len(delta)), back, delta)
		objects = append(objects, object)
		offset += len(object)
	}
	return Pack(deltas+1, objects...)
}
