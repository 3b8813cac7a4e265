package muxws

import (
	"bufio"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
)

type opcode byte

const (
	opContinuation opcode = 0
	opBinary       opcode = 2
	opClose        opcode = 8
	opPing         opcode = 9
	opPong         opcode = 10
)

const (
	finalBit   = 0x80
	maskBit    = 0x80
	maxControl = 125 // bytes of payload, by the RFC
	maxHeader  = 2 + 8 + 4
)

// header is what comes before a frame's payload.
type header struct {
	final  bool
	op     opcode
	masked bool
	mask   [4]byte
	length uint64
}

func (op opcode) control() bool { return op >= opClose }

// readHeader reads the head of a frame, and refuses what the RFC does not allow or we don't speak.
func readHeader(r *bufio.Reader) (h header, err error) {
	var b [8]byte
	if _, err := io.ReadFull(r, b[:2]); err != nil {
		return h, err
	}
	h.final, h.op, h.masked = b[0]&finalBit != 0, opcode(b[0]&0x0f), b[1]&maskBit != 0
	if b[0]&0x70 != 0 {
		return h, errors.New("frame uses an extension that was not agreed on")
	}
	switch h.length = uint64(b[1] &^ maskBit); h.length {
	case 126:
		if _, err := io.ReadFull(r, b[:2]); err != nil {
			return h, unexpected(err)
		}
		if h.length = uint64(binary.BigEndian.Uint16(b[:])); h.length < 126 {
			return h, errors.New("frame's length is not written in the shortest way")
		}
	case 127:
		if _, err := io.ReadFull(r, b[:8]); err != nil {
			return h, unexpected(err)
		}
		if h.length = binary.BigEndian.Uint64(b[:]); h.length < 1<<16 {
			return h, errors.New("frame's length is not written in the shortest way")
		}
	}
	if h.masked {
		if _, err := io.ReadFull(r, h.mask[:]); err != nil {
			return h, unexpected(err)
		}
	}
	return h, h.check()
}

func (h header) check() error {
	switch h.op {
	case opContinuation, opBinary:
		return nil
	case opClose, opPing, opPong:
		if !h.final || h.length > maxControl {
			return errors.New("control frame in pieces, or too long")
		}
		return nil
	default:
		return fmt.Errorf("frame of kind %d", h.op)
	}
}

// unexpected makes an end inside of a frame an error.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// appendFrame appends a whole frame to dst; clients mask theirs, as proxies expect.
func appendFrame(dst []byte, op opcode, masked bool, payload []byte) []byte {
	dst = append(dst, finalBit|byte(op))
	bit := byte(0)
	if masked {
		bit = maskBit
	}
	switch n := len(payload); {
	case n < 126:
		dst = append(dst, bit|byte(n))
	case n < 1<<16:
		dst = binary.BigEndian.AppendUint16(append(dst, bit|126), uint16(n))
	default:
		dst = binary.BigEndian.AppendUint64(append(dst, bit|127), uint64(n))
	}
	if !masked {
		return append(dst, payload...)
	}
	var mask [4]byte
	binary.LittleEndian.PutUint32(mask[:], rand.Uint32()) //nolint:gosec // only has to differ: it keeps proxies from reading frames as requests
	dst = append(dst, mask[:]...)
	at := len(dst)
	dst = slices.Grow(dst, len(payload))[:at+len(payload)]
	applyMask(mask, dst[at:], payload)
	return dst
}

// applyMask puts a mask on src, or takes it off, into dst, which may be src. XORBytes does many bytes at once.
func applyMask(mask [4]byte, dst, src []byte) {
	var many [512]byte
	copy(many[:], mask[:])
	for n := len(mask); n < min(len(many), len(src)); n *= 2 {
		copy(many[n:], many[:n])
	}
	for len(src) > 0 {
		n := subtle.XORBytes(dst, src, many[:])
		dst, src = dst[n:], src[n:]
	}
}
