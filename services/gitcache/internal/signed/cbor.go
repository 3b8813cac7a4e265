package signed

import (
	"errors"
	"math"
	"unicode/utf8"
)

const (
	// maxDepth of values within values: envelopes have three levels.
	maxDepth = 8
	// maxItems of an array or a map: the longest is a chain of certificates.
	maxItems = 64
)

// tagged is a value of CBOR with a number that says what it stands for.
type tagged struct {
	number uint64
	value  any
}

var errCBOR = errors.New("is not CBOR that can be read")

// parseCBOR reads one value of CBOR (RFC 8949) that is all of the text, in the forms that envelopes have: int64,
// []byte, string, []any, map[any]any (of which the keys are int64 or string), tagged, bool and nil. Lengths have their
// shortest form and are not left open, and no key is there twice.
func parseCBOR(text []byte) (any, error) {
	value, rest, err := readCBOR(text, maxDepth)
	if err != nil || len(rest) > 0 {
		return nil, errCBOR
	}
	return value, nil
}

// kinds of values (major types).
const (
	cborUnsigned = iota
	cborNegative
	cborBytes
	cborText
	cborArray
	cborMap
	cborTag
	cborSimple
)

func readCBOR(text []byte, depth int) (value any, rest []byte, err error) {
	if len(text) == 0 || depth == 0 {
		return nil, nil, errCBOR
	}
	kind := text[0] >> 5
	n, rest, ok := readHead(text)
	if !ok {
		return nil, nil, errCBOR
	}
	switch kind {
	case cborUnsigned, cborNegative:
		if n > math.MaxInt64 {
			return nil, nil, errCBOR
		}
		if kind == cborNegative {
			return -1 - int64(n), rest, nil
		}
		return int64(n), rest, nil
	case cborBytes, cborText:
		if n > uint64(len(rest)) || kind == cborText && !utf8.Valid(rest[:n]) {
			return nil, nil, errCBOR
		}
		if kind == cborText {
			return string(rest[:n]), rest[n:], nil
		}
		return rest[:n], rest[n:], nil
	case cborArray:
		return readArray(rest, n, depth)
	case cborMap:
		return readMap(rest, n, depth)
	case cborTag:
		value, rest, err = readCBOR(rest, depth-1)
		return tagged{n, value}, rest, err
	}
	switch text[0] {
	case 0xf4, 0xf5:
		return text[0] == 0xf5, rest, nil
	case 0xf6:
		return nil, rest, nil
	}
	return nil, nil, errCBOR
}

// readHead reads the number that a value begins with: itself, its length, or its tag.
func readHead(text []byte) (n uint64, rest []byte, ok bool) {
	short, rest := text[0]&0x1f, text[1:]
	if short < 24 {
		return uint64(short), rest, true
	}
	size := 1 << (short - 24)
	if short > 27 || len(rest) < size {
		return 0, nil, false
	}
	for _, b := range rest[:size] {
		n = n<<8 | uint64(b)
	}
	least := map[int]uint64{1: 24, 2: 1 << 8, 4: 1 << 16, 8: 1 << 32}[size]
	return n, rest[size:], n >= least
}

func readArray(text []byte, n uint64, depth int) (value any, rest []byte, err error) {
	if n > maxItems {
		return nil, nil, errCBOR
	}
	list := []any{}
	for range n {
		var one any
		if one, text, err = readCBOR(text, depth-1); err != nil {
			return nil, nil, err
		}
		list = append(list, one)
	}
	return list, text, nil
}

func readMap(text []byte, n uint64, depth int) (value any, rest []byte, err error) {
	if n > maxItems {
		return nil, nil, errCBOR
	}
	all := map[any]any{}
	for range n {
		var key, one any
		if key, text, err = readCBOR(text, depth-1); err != nil {
			return nil, nil, err
		}
		switch key.(type) {
		case int64, string:
		default:
			return nil, nil, errCBOR
		}
		if one, text, err = readCBOR(text, depth-1); err != nil {
			return nil, nil, err
		}
		if _, twice := all[key]; twice {
			return nil, nil, errCBOR
		}
		all[key] = one
	}
	return all, text, nil
}

// appendCBOR begins a value of a kind, with its length.
func appendCBOR(out []byte, kind byte, n int) []byte {
	switch {
	case n < 24:
		return append(out, kind<<5|byte(n))
	case n < 1<<8:
		return append(out, kind<<5|24, byte(n))
	case n < 1<<16:
		return append(out, kind<<5|25, byte(n>>8), byte(n))
	}
	return append(out, kind<<5|26, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
}
