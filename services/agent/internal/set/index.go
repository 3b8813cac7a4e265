package set

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"strings"
	"time"

	"fairlead.dev/services/agent/internal/kubeyaml"
	"fairlead.dev/services/agent/internal/object"
)

// The file of a set:
//
//	magic     8 bytes
//	content   objects as JSON, as they are sent, one after the other
//	index     an entry per object, in the order they were added: see appendItem
//	table     12 bytes per object: hash of its key, and where the index has it; sorted
//	for       up to three texts, see footer.texts
//	footer    see footer; its checksum is of that text, too
//
// Numbers are little-endian.
const (
	magic      = "flset\x00\x00\x01"
	rowBytes   = 12
	footerSize = 32
	// maxTexts bounds the texts before the footer, in bytes.
	maxTexts = 8 << 10
)

// footer is the end of the file, from which the rest is found.
type footer struct {
	index int64  // where it begins
	table int64  // where it begins
	count uint32 // of objects
	sum   object.Sum
	// The fields below stand before the rest, and are in its checksum.

	// environment is what the cluster could do, where the objects depend on it.
	environment string
	// releaseService is what templates of a chart saw as .Release.Service; "": no chart, or Fairlead, as agents said
	// before they noted it.
	releaseService string
	// warnings are sentences, each on its line.
	warnings string
}

// joinTexts joins the texts of the footer by line breaks, of which the first two have none.
func (f footer) joinTexts() string {
	return strings.TrimRight(f.environment+"\n"+f.releaseService+"\n"+f.warnings, "\n")
}

func (f footer) encodeBytes() []byte {
	b := []byte(f.joinTexts())
	b = binary.LittleEndian.AppendUint64(b, uint64(f.index))
	b = binary.LittleEndian.AppendUint64(b, uint64(f.table))
	b = binary.LittleEndian.AppendUint32(b, f.count)
	b = binary.LittleEndian.AppendUint64(b, uint64(f.sum))
	return binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}

// parseFooter reads the end of a file of so many bytes: the texts are what is left before the footer.
func parseFooter(end []byte, size int64) (f footer, ok bool) {
	if len(end) < footerSize {
		return footer{}, false
	}
	b := end[len(end)-footerSize:]
	f = footer{
		index: int64(binary.LittleEndian.Uint64(b)),
		table: int64(binary.LittleEndian.Uint64(b[8:])),
		count: binary.LittleEndian.Uint32(b[16:]),
		sum:   object.Sum(binary.LittleEndian.Uint64(b[20:])),
	}
	length := size - f.table - int64(f.count)*rowBytes - footerSize
	if f.index < int64(len(magic)) || f.table < f.index || f.table > size || length < 0 || length > maxTexts || length > int64(len(end)-footerSize) {
		return footer{}, false
	}
	summed := end[len(end)-footerSize-int(length) : len(end)-4]
	f.environment, f.releaseService, _ = strings.Cut(string(summed[:length]), "\n")
	f.releaseService, f.warnings, _ = strings.Cut(f.releaseService, "\n")
	return f, crc32.ChecksumIEEE(summed) == binary.LittleEndian.Uint32(b[footerSize-4:])
}

// appendItem writes an entry: its length, the fields, and a sum of them.
func appendItem(b []byte, item Item) []byte {
	var e []byte
	for _, text := range []string{item.Group, item.Version, item.Kind, item.Namespace, item.Name, item.Position.File} {
		e = appendText(e, text)
	}
	for _, number := range []int{item.Position.Document, item.Position.Item, item.Position.Line} {
		e = binary.AppendUvarint(e, uint64(number))
	}
	e = binary.LittleEndian.AppendUint64(e, uint64(item.Sum))
	e = binary.LittleEndian.AppendUint64(e, uint64(item.text))
	e = binary.AppendUvarint(e, uint64(item.at))
	e = binary.AppendUvarint(e, uint64(item.size))
	e = binary.AppendVarint(e, int64(item.Wave))
	e = binary.AppendVarint(e, int64(item.Timeout))
	e = binary.AppendUvarint(e, uint64(item.Hook))
	e = binary.AppendUvarint(e, uint64(item.Flags))
	var bare byte
	if item.bare {
		bare = 1
	}
	e = append(e, bare)
	e = binary.AppendUvarint(e, uint64(len(item.Depends)))
	for _, key := range item.Depends {
		for _, text := range []string{key.Group, key.Kind, key.Namespace, key.Name} {
			e = appendText(e, text)
		}
	}
	b = binary.AppendUvarint(b, uint64(len(e)))
	b = append(b, e...)
	return binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(e))
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

var errDamaged = errors.New("is damaged")

// parseItem reads the first entry of b, and returns what follows it.
func parseItem(b []byte) (Item, []byte, error) {
	size, n := binary.Uvarint(b)
	if n <= 0 || size > uint64(len(b)-n) || uint64(len(b)-n)-size < 4 {
		return Item{}, nil, errDamaged
	}
	e, rest := b[n:n+int(size)], b[n+int(size):]
	if crc32.ChecksumIEEE(e) != binary.LittleEndian.Uint32(rest) {
		return Item{}, nil, errDamaged
	}
	r := reader{b: e}
	item := Item{Ref: object.Ref{Key: object.Key{Group: r.readText()}, Version: r.readText()}}
	item.Kind, item.Namespace, item.Name = r.readText(), r.readText(), r.readText()
	item.Position = kubeyaml.Position{File: r.readText(), Document: int(r.readNumber()), Item: int(r.readNumber()), Line: int(r.readNumber())}
	item.Sum, item.text = object.Sum(r.readFixed()), object.Sum(r.readFixed())
	item.at, item.size = int64(r.readNumber()), int32(r.readNumber())
	item.Wave, item.Timeout = int32(r.readSigned()), time.Duration(r.readSigned())
	item.Hook, item.Flags = Hook(r.readNumber()), Flags(r.readNumber())
	item.bare = len(r.takeBytes(1)) == 1 && e[len(e)-len(r.b)-1] == 1
	for range min(r.readNumber(), uint64(len(r.b))) {
		item.Depends = append(item.Depends, object.Key{Group: r.readText(), Kind: r.readText(), Namespace: r.readText(), Name: r.readText()})
	}
	if r.failed || len(r.b) > 0 || item.at < 0 || item.size < 0 {
		return Item{}, nil, errDamaged
	}
	return item, rest[4:], nil
}

// reader takes fields off an entry. After a failure it yields zeros.
type reader struct {
	b      []byte
	failed bool
}

func (r *reader) takeBytes(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.b, r.failed = nil, true
		return nil
	}
	taken := r.b[:n]
	r.b = r.b[n:]
	return taken
}

func (r *reader) readText() string { return string(r.takeBytes(r.readNumber())) }

func (r *reader) readFixed() uint64 {
	b := r.takeBytes(8)
	if b == nil {
		return 0
	}
	return binary.LittleEndian.Uint64(b)
}

func (r *reader) readNumber() uint64 {
	value, n := binary.Uvarint(r.b)
	r.takeBytes(widthOf(n))
	return value
}

func (r *reader) readSigned() int64 {
	value, n := binary.Varint(r.b)
	r.takeBytes(widthOf(n))
	return value
}

// widthOf is the length of a number that was read; one that makes no sense takes more than there is.
func widthOf(n int) uint64 {
	if n <= 0 {
		return 1 << 62
	}
	return uint64(n)
}

// hashOf is what the table is sorted by. No part of a key holds a zero byte that the API would take.
func hashOf(key object.Key) object.Sum {
	return object.SumOf([]byte(key.Group + "\x00" + key.Kind + "\x00" + key.Namespace + "\x00" + key.Name))
}
