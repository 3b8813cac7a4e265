package build

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"fairlead.dev/platform/artifact"
)

// maxLine of the memo's file: a record with the longest filter.
const maxLine = 256 << 10

// eachLine gives whole lines of at most maxLine bytes.
func eachLine(r io.Reader, use func(line []byte)) error {
	lines := bufio.NewReaderSize(r, maxLine)
	for long := false; ; {
		line, err := lines.ReadSlice('\n')
		if err == nil && !long {
			use(line[:len(line)-1])
		}
		long = errors.Is(err, bufio.ErrBufferFull)
		switch {
		case err == nil, long:
		case errors.Is(err, io.EOF):
			return nil
		default:
			return err
		}
	}
}

// encodeRecord makes a line: checksum, space, JSON.
func encodeRecord(r record) []byte {
	b, err := json.Marshal(r)
	if err != nil {
		return nil // strings and numbers always encode
	}
	return fmt.Appendf(nil, "%08x %s\n", crc32.ChecksumIEEE(b), b)
}

func decodeRecord(line []byte) (record, bool) {
	var r record
	if len(line) < 10 || fmt.Sprintf("%08x ", crc32.ChecksumIEEE(line[9:])) != string(line[:9]) {
		return r, false
	}
	if json.Unmarshal(line[9:], &r) != nil {
		return r, false
	}
	_, err := artifact.ParseDigest(string(r.Digest))
	return r, err == nil && r.SourceID != ""
}
