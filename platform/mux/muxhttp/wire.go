package muxhttp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"
)

// Bounds of heads, besides mux.MaxHead for the whole.
const (
	maxFields = 1000 // header fields; browsers and kubectl send dozens
	maxTexts  = 1000 // groups, values of an extra, names of trailers
	maxMethod = 64
	// MaxTarget bounds path and query together, in bytes: a LIST with long label selectors fits.
	MaxTarget = 64 << 10

	usualHead = 512 // bytes; room for most
)

const contentLength = "Content-Length"

// kindHTTP in the first byte of an OPEN payload says that the stream is an HTTP request. An upgraded
// one is the same, with 101 as its response.
const kindHTTP = 1

// kindHTTPAs is kindHTTP with Caller.As. kindHTTPAs is a kind of its own so that an agent that knows nothing of it
// refuses the stream, and does not run the request with the rights of the caller.
const kindHTTPAs = 2

// Impersonation is the property of an agent's HELLO that says that it takes Caller.As.
const Impersonation = "impersonation"

// Caller is who asks, as the hub has verified it. The caller travels in the OPEN frame.
type Caller struct {
	User   string
	Groups []string
	Extra  map[string][]string
	// TraceParent continues the hub's trace (W3C); it may be empty.
	TraceParent string
	// As is whom the caller asks to pass off as (kubectl --as); nil: nobody. The agent has to see to it that the caller
	// may.
	As *Impersonated
}

// Impersonated is somebody that a caller asks to pass off as: a user, or a service account by the name that it has as a
// user.
type Impersonated struct {
	User, UID string
	Groups    []string
	Extra     map[string][]string
}

type requestHead struct {
	method   string
	target   string // as on the request line: path and query, escapes as they came
	length   int64  // -1: unknown
	header   http.Header
	trailers []string // announced
}

type responseHead struct {
	status   int
	length   int64 // -1: unknown
	header   http.Header
	trailers []string
}

var errHead = errors.New("malformed head")

// appendCaller appends the caller to b.
func (c Caller) appendCaller(b []byte) []byte {
	if c.As == nil {
		b = append(b, kindHTTP)
	} else {
		b = append(b, kindHTTPAs)
	}
	b = appendString(b, c.User)
	b = appendStrings(b, c.Groups)
	b = appendExtra(b, c.Extra)
	b = appendString(b, c.TraceParent)
	if c.As == nil {
		return b
	}
	b = appendString(appendString(b, c.As.User), c.As.UID)
	return appendExtra(appendStrings(b, c.As.Groups), c.As.Extra)
}

func appendExtra(b []byte, extra map[string][]string) []byte {
	b = binary.AppendUvarint(b, uint64(len(extra)))
	for _, k := range sortedKeys(extra) {
		b = appendStrings(appendString(b, k), extra[k])
	}
	return b
}

// sortedKeys returns the names of a map; nil for an empty map, as nearly all are: the iterators alone would be five
// allocations of a request.
func sortedKeys(m map[string][]string) []string {
	if len(m) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(m))
}

func decodeCaller(p []byte) (Caller, error) {
	d := newDecoder(p)
	var c Caller
	kind := d.readByte()
	if kind != kindHTTP && kind != kindHTTPAs {
		return c, fmt.Errorf("%w: stream is not an HTTP request", errHead)
	}
	c.User = d.readText()
	c.Groups = d.readTexts()
	c.Extra = d.readExtra()
	c.TraceParent = d.readText()
	if kind == kindHTTPAs {
		c.As = &Impersonated{User: d.readText(), UID: d.readText(), Groups: d.readTexts(), Extra: d.readExtra()}
	}
	return c, d.endError()
}

// appendHead appends the head to b.
func (h requestHead) appendHead(b []byte) []byte {
	b = appendString(b, h.method)
	b = appendString(b, h.target)
	b = binary.AppendUvarint(b, uint64(h.length+1))
	b = appendHeader(b, h.header)
	return appendStrings(b, h.trailers)
}

func decodeRequest(p []byte) (requestHead, error) {
	d := newDecoder(p)
	h := requestHead{method: d.readText(), target: d.readText(), length: d.readLength(), header: d.readHeader()}
	h.trailers = d.readNames()
	switch {
	case !httpguts.ValidHeaderFieldName(h.method) || len(h.method) > maxMethod || h.method == http.MethodConnect:
		d.failWith("method")
	case len(h.target) > MaxTarget || !strings.HasPrefix(h.target, "/") || strings.ContainsFunc(h.target, notInTarget):
		d.failWith("target")
	}
	return h, d.endError()
}

// notInTarget says which runes can't be on a request line; whoever may send them escapes them.
func notInTarget(r rune) bool { return r <= ' ' || r == 0x7f || r == '#' }

func (h responseHead) encodeHead() []byte {
	b := binary.AppendUvarint(make([]byte, 0, usualHead), uint64(h.status))
	b = binary.AppendUvarint(b, uint64(h.length+1))
	b = appendHeader(b, h.header)
	return appendStrings(b, h.trailers)
}

func decodeResponse(p []byte) (responseHead, error) {
	d := newDecoder(p)
	h := responseHead{status: int(min(d.readUvarint(), 1000)), length: d.readLength(), header: d.readHeader()}
	h.trailers = d.readNames()
	if h.status < 100 || h.status > 999 {
		d.failWith("status")
	}
	return h, d.endError()
}

func decodeTrailers(p []byte) (http.Header, error) {
	d := newDecoder(p)
	h := d.readHeader()
	return h, d.endError()
}

func appendString(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

func appendStrings(b []byte, list []string) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, s := range list {
		b = appendString(b, s)
	}
	return b
}

// appendHeader leaves Content-Length out: a head has its length beside its fields.
func appendHeader(b []byte, h http.Header) []byte {
	n := -len(h[contentLength])
	for _, values := range h {
		n += len(values)
	}
	b = binary.AppendUvarint(b, uint64(n))
	for k, values := range h {
		if k == contentLength {
			continue
		}
		for _, v := range values {
			b = appendString(appendString(b, k), v)
		}
	}
	return b
}

// validHeader says whether a header can be sent.
func validHeader(h http.Header) error {
	n := 0
	for k, values := range h {
		if err := validField(k, values); err != nil {
			return err
		}
		n += len(values)
	}
	if n > maxFields {
		return fmt.Errorf("%d header fields, at most %d fit", n, maxFields)
	}
	return nil
}

func validField(name string, values []string) error {
	if !httpguts.ValidHeaderFieldName(name) {
		return fmt.Errorf("header field name %q is not valid", name)
	}
	for _, v := range values {
		if !httpguts.ValidHeaderFieldValue(v) {
			return fmt.Errorf("value of header field %q is not valid", name)
		}
	}
	return nil
}

// decoder takes a head apart. After the first error it returns zero values. All texts are parts of one.
type decoder struct {
	whole string
	rest  []byte // the end of it
	err   error
}

func newDecoder(p []byte) decoder { return decoder{whole: string(p), rest: p} }

func (d *decoder) failWith(what string) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: %s", errHead, what)
	}
	d.rest = nil
}

func (d *decoder) endError() error {
	if d.err == nil && len(d.rest) > 0 {
		d.failWith("bytes after the end")
	}
	return d.err
}

func (d *decoder) readByte() byte {
	if len(d.rest) == 0 {
		d.failWith("cut short")
		return 0
	}
	b := d.rest[0]
	d.rest = d.rest[1:]
	return b
}

func (d *decoder) readUvarint() uint64 {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 {
		d.failWith("number")
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

// readExtra reads keys with their values; nil: there are none.
func (d *decoder) readExtra() map[string][]string {
	n := d.readCount(maxFields)
	if n == 0 {
		return nil
	}
	extra := make(map[string][]string)
	for range n {
		k := d.readText()
		if _, twice := extra[k]; twice {
			d.failWith("extra given twice")
		}
		extra[k] = d.readTexts()
		if d.err != nil {
			break
		}
	}
	return extra
}

func (d *decoder) readLength() int64 {
	v := d.readUvarint()
	if v > 1<<62 {
		d.failWith("length")
		return 0
	}
	return int64(v) - 1
}

// readCount reads how many things follow. A thing takes a byte at least, so that a wrong count allocates nothing.
func (d *decoder) readCount(most int) int {
	v := d.readUvarint()
	if v > uint64(most) || v > uint64(len(d.rest)) {
		d.failWith("count")
		return 0
	}
	return int(v)
}

func (d *decoder) readBytes() string {
	n := d.readUvarint()
	if n > uint64(len(d.rest)) {
		d.failWith("cut short")
		return ""
	}
	at := len(d.whole) - len(d.rest)
	d.rest = d.rest[n:]
	return d.whole[at : at+int(n)]
}

func (d *decoder) readText() string {
	s := d.readBytes()
	if !utf8.ValidString(s) {
		d.failWith("text that is not UTF-8")
		return ""
	}
	return s
}

func (d *decoder) readTexts() []string {
	n := d.readCount(maxTexts)
	if n == 0 {
		return nil
	}
	list := make([]string, n)
	for i := range list {
		list[i] = d.readText()
	}
	return list
}

func (d *decoder) readNames() []string {
	list := d.readTexts()
	for i, s := range list {
		if !httpguts.ValidTrailerHeader(s) || !httpguts.ValidHeaderFieldName(s) {
			d.failWith("trailer name")
			return nil
		}
		list[i] = http.CanonicalHeaderKey(s)
	}
	return list
}

func (d *decoder) readHeader() http.Header {
	n := d.readCount(maxFields)
	h := make(http.Header, n)
	values := make([]string, n) // one for each field; most have one value
	for i := range n {
		k, v := d.readBytes(), d.readBytes()
		if d.err != nil {
			return nil
		}
		if !httpguts.ValidHeaderFieldName(k) || !httpguts.ValidHeaderFieldValue(v) {
			d.failWith("header field")
			return nil
		}
		k = http.CanonicalHeaderKey(k)
		if k == contentLength { // the head says it, and nothing else
			continue
		}
		if h[k] == nil {
			values[i] = v
			h[k] = values[i : i+1 : i+1]
			continue
		}
		h[k] = append(h[k], v)
	}
	return h
}
