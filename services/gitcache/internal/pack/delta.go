package pack

import (
	"bufio"
	"errors"
	"io"
)

// deltaSizes reads the begin of a delta: the sizes of its base and of what it makes.
func deltaSizes(d *bufio.Reader) (base, result int64, err error) {
	if base, err = deltaSize(d); err != nil {
		return 0, 0, err
	}
	result, err = deltaSize(d)
	return base, result, err
}

func deltaSize(d *bufio.Reader) (int64, error) {
	var n uint64
	for shift := 0; ; shift += 7 {
		c, err := d.ReadByte()
		if err != nil {
			return 0, cutError(err)
		}
		if shift > 56 {
			return 0, damagedf("the size in a delta")
		}
		n |= uint64(c&0x7f) << shift
		if c&0x80 == 0 {
			return int64(n), nil
		}
	}
}

// cutError turns the end of a delta, where more of it should be, into damage.
func cutError(err error) error {
	if errors.Is(err, io.EOF) {
		return damagedf("a delta is cut short")
	}
	return err
}

// applyDelta writes what the rest of a delta makes from base: size bytes, of parts of base and new ones.
func applyDelta(d *bufio.Reader, base *content, size int64, w io.Writer) error {
	for left := size; ; {
		op, err := d.ReadByte()
		if errors.Is(err, io.EOF) {
			if left != 0 {
				return damagedf("a delta makes less than it says")
			}
			return nil
		}
		if err != nil {
			return err
		}
		n := int64(op)
		switch {
		case op == 0:
			return damagedf("a delta has an unknown instruction")
		case op&0x80 == 0:
			err = insertBytes(d, n, left, w)
		default:
			n, err = copyPart(d, op, base, left, w)
		}
		if err != nil {
			return err
		}
		left -= n
	}
}

func insertBytes(d *bufio.Reader, n, left int64, w io.Writer) error {
	if n > left {
		return damagedf("a delta makes more than it says")
	}
	b, err := d.Peek(int(n))
	if err != nil {
		return cutError(err)
	}
	if _, err := w.Write(b); err != nil {
		return err
	}
	_, err = d.Discard(int(n))
	return err
}

// copyPart carries out an instruction whose bits say which bytes of place and length follow.
func copyPart(d *bufio.Reader, op byte, base *content, left int64, w io.Writer) (int64, error) {
	var from, n int64
	for bit := range 7 {
		if op>>bit&1 == 0 {
			continue
		}
		c, err := d.ReadByte()
		if err != nil {
			return 0, cutError(err)
		}
		if bit < 4 {
			from |= int64(c) << (8 * bit)
		} else {
			n |= int64(c) << (8 * (bit - 4))
		}
	}
	if n == 0 {
		n = 0x10000
	}
	if from+n > base.size || n > left {
		return 0, damagedf("a delta goes over an edge")
	}
	return n, base.copyTo(w, from, n)
}
