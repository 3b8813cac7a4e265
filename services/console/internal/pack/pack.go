// Package pack writes texts with few bytes: the JSON of states, which has names, digests, ids and times in it. A packed
// text is the same text, byte by byte, when it is unpacked, whatever it holds.
//
// A packed text begins with version, which no JSON begins with. Behind it, a byte of printable ASCII stands for itself,
// a byte of words or above for one of the words, and a byte below a space says what follows.
package pack

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"strconv"
	"time"
)

// What a byte below a space says.
const (
	version = 1 // the first byte: those below and the list of words have the meaning that they have here

	digits32 = 2 // so many bytes follow, which are twice as many hexadecimal digits: of a SHA-256
	digits20 = 3 // of a commit
	digits16 = 4 // of a trace
	digits8  = 5 // of a span
	moment   = 6 // seconds since 1970 follow, how many digits there are behind the point, and these as one number
	again    = 7 // the number of digits or of a moment that came before follows
	number   = 8 // a number follows, as a varint
	literal  = 9 // the number of bytes that follow as they are
)

const (
	firstWord = 0x80
	// maxRuns is how many digits and moments of a text can be said again.
	maxRuns = 32
	// leastNumber is how many digits a number has at least that takes fewer bytes as a varint.
	leastNumber, mostNumber = 6, 18
	maxLiteral              = math.MaxUint8

	wholeMoment = "2006-01-02T15:04:05Z"
	nanoDigits  = 9
	mostSeconds = 253402300799 // 9999-12-31T23:59:59Z
)

// hexBytes is how many bytes follow each of the bytes that say digits.
var hexBytes = [...]int{digits32: 32, digits20: 20, digits16: 16, digits8: 8} //nolint:gochecknoglobals // a constant

// Pack returns a text with few bytes, or as it is if that is shorter.
func Pack(text []byte) []byte { return (&packer{text: text, words: true}).pack() }

// Short is Pack without the words, whatever these become: the same text is always the same bytes, and may be looked
// for.
func Short(text string) []byte { return (&packer{text: []byte(text)}).pack() }

func (p *packer) pack() []byte {
	text := p.text
	p.out = make([]byte, 1, len(text)/2+16)
	p.out[0] = version
	for p.at < len(text) {
		p.step()
	}
	if len(p.out) >= len(text) && (len(text) == 0 || text[0] != version) {
		return text
	}
	return p.out
}

type packer struct {
	text  []byte
	words bool // whether words are said by their number
	at    int
	out   []byte
	runs  [][2]int // where digits and moments stand in text
}

// step packs what stands next in the text.
func (p *packer) step() {
	rest := p.text[p.at:]
	if p.words {
		if n, word := longestWord(rest); n > 0 {
			p.at += n
			p.out = append(p.out, firstWord+word)
			return
		}
	}
	switch c := rest[0]; {
	case isAlphanumeric(c):
		p.name(rest)
	case c >= ' ' && c <= '~':
		p.at++
		p.out = append(p.out, c)
	default:
		n := 1
		for n < len(rest) && n < maxLiteral && (rest[n] < ' ' || rest[n] > '~') {
			n++
		}
		p.at += n
		p.out = append(append(p.out, literal, byte(n)), rest[:n]...)
	}
}

// name packs letters and digits up to the next byte that is neither.
func (p *packer) name(rest []byte) {
	if n := momentIn(rest); n > 0 && p.moment(rest[:n]) {
		return
	}
	end, hexEnd, decimalEnd := 0, 0, 0
	for end < len(rest) && isAlphanumeric(rest[end]) {
		c := rest[end]
		if hexEnd == end && (c <= '9' || c >= 'a' && c <= 'f') {
			hexEnd++
		}
		if decimalEnd == end && c <= '9' {
			decimalEnd++
		}
		end++
	}
	switch {
	case hexEnd == end && p.digits(rest[:end]):
	case decimalEnd == end && p.number(rest[:end]):
	default:
		p.at += end
		p.out = append(p.out, rest[:end]...)
	}
}

func (p *packer) digits(run []byte) bool {
	for code, n := range hexBytes {
		if n == 0 || len(run) != 2*n {
			continue
		}
		if !p.again(run) {
			p.out = append(p.out, byte(code))
			p.out, _ = hex.AppendDecode(p.out, run) // they are digits
		}
		p.at += len(run)
		return true
	}
	return false
}

func (p *packer) moment(run []byte) bool {
	t, err := time.Parse(time.RFC3339, string(run))
	if err != nil || t.Unix() < 0 || len(run) < len(wholeMoment) {
		return false
	}
	point := len(wholeMoment) - len("Z")
	places := max(0, len(run)-len(wholeMoment)-len("."))
	fraction := t.Nanosecond()
	for range nanoDigits - places {
		fraction /= 10
	}
	if run[point] != 'Z' && run[point] != '.' || !bytes.Equal(appendMoment(nil, t.Unix(), places, uint64(fraction)), run) {
		return false
	}
	if !p.again(run) {
		p.out = binary.AppendUvarint(append(p.out, moment), uint64(t.Unix()))
		p.out = binary.AppendUvarint(append(p.out, byte(places)), uint64(fraction))
	}
	p.at += len(run)
	return true
}

// appendMoment writes a moment with so many digits behind the point.
func appendMoment(to []byte, seconds int64, places int, fraction uint64) []byte {
	to = time.Unix(seconds, 0).UTC().AppendFormat(to, "2006-01-02T15:04:05")
	if places > 0 {
		to = append(to, '.')
		begin := len(to)
		to = append(to, "000000000"[:places]...)
		for i := len(to) - 1; i >= begin; i-- {
			to[i] += byte(fraction % 10)
			fraction /= 10
		}
	}
	return append(to, 'Z')
}

func (p *packer) number(run []byte) bool {
	if len(run) < leastNumber || len(run) > mostNumber || run[0] == '0' {
		return false
	}
	var n uint64
	for _, c := range run {
		n = 10*n + uint64(c-'0')
	}
	p.out = binary.AppendUvarint(append(p.out, number), n)
	p.at += len(run)
	return true
}

// again says that a run came before, or keeps it for later.
func (p *packer) again(run []byte) bool {
	for i, before := range p.runs {
		if bytes.Equal(p.text[before[0]:before[1]], run) {
			p.out = append(p.out, again, byte(i))
			return true
		}
	}
	if len(p.runs) < maxRuns {
		p.runs = append(p.runs, [2]int{p.at, p.at + len(run)})
	}
	return false
}

// momentIn is how long a text is that a moment in UTC would be, at the beginning of rest; 0: there is none.
func momentIn(rest []byte) int {
	if len(rest) < len(wholeMoment) || rest[4] != '-' || rest[10] != 'T' {
		return 0
	}
	return 1 + bytes.IndexByte(rest[:min(len(rest), len(wholeMoment)+len(".")+nanoDigits)], 'Z')
}

func isAlphanumeric(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// ErrDamaged is of a packed text that Pack of this version did not make.
var ErrDamaged = errors.New("packed text is damaged, or of a newer version")

// Unpack returns the text that Pack was given, apart from the packed one.
func Unpack(packed []byte) ([]byte, error) {
	if len(packed) == 0 || packed[0] != version {
		return bytes.Clone(packed), nil
	}
	u := unpacker{packed: packed, at: 1, out: make([]byte, 0, 4*len(packed))}
	for u.at < len(packed) {
		if !u.step() {
			return nil, ErrDamaged
		}
	}
	return u.out, nil
}

type unpacker struct {
	packed []byte
	at     int
	out    []byte
	runs   [][2]int // where digits and moments stand in out
}

// step unpacks what comes next, and says whether that is whole.
func (u *unpacker) step() bool {
	c := u.packed[u.at]
	u.at++
	switch {
	case c >= firstWord:
		if int(c-firstWord) >= len(words) {
			return false
		}
		u.out = append(u.out, words[c-firstWord]...)
		return true
	case c >= ' ':
		u.out = append(u.out, c)
		return true
	case int(c) < len(hexBytes) && hexBytes[c] > 0:
		bytes, ok := u.take(hexBytes[c])
		begin := len(u.out)
		u.out = hex.AppendEncode(u.out, bytes)
		return ok && u.keep(begin)
	}
	switch c {
	case moment:
		seconds, ok := u.uvarint()
		places, more := u.take(1)
		if !ok || !more || seconds > mostSeconds || places[0] > nanoDigits {
			return false
		}
		fraction, ok := u.uvarint()
		if !ok {
			return false
		}
		begin := len(u.out)
		u.out = appendMoment(u.out, int64(seconds), int(places[0]), fraction)
		return u.keep(begin)
	case again:
		i, ok := u.take(1)
		if !ok || int(i[0]) >= len(u.runs) {
			return false
		}
		run := u.runs[i[0]]
		u.out = append(u.out, u.out[run[0]:run[1]]...)
		return true
	case number:
		n, ok := u.uvarint()
		u.out = strconv.AppendUint(u.out, n, 10)
		return ok
	case literal:
		n, ok := u.take(1)
		if !ok {
			return false
		}
		text, ok := u.take(int(n[0]))
		u.out = append(u.out, text...)
		return ok
	}
	return false
}

// keep notes a run that ends here.
func (u *unpacker) keep(begin int) bool {
	if len(u.runs) < maxRuns {
		u.runs = append(u.runs, [2]int{begin, len(u.out)})
	}
	return true
}

func (u *unpacker) take(n int) ([]byte, bool) {
	if len(u.packed)-u.at < n {
		return nil, false
	}
	u.at += n
	return u.packed[u.at-n : u.at], true
}

func (u *unpacker) uvarint() (uint64, bool) {
	value, n := binary.Uvarint(u.packed[u.at:])
	u.at += max(n, 0)
	return value, n > 0
}
