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

// kindHTTPAs is kindHTTP with Caller.As. kindHTTPAs is a kind of its own so that an agent that knows nothing of it refuses the stream, and does
// not run the request with the rights of the caller.
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
	// As is whom the caller asks to pass off as (kubectl --as); nil: nobody. The agent has to see to it that the caller may.
	As *Impersonated
}

// Impersonated is somebody that a caller asks to pass off as: a user, or a service account by the name that it has as a user.
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

// encode appends the caller to b.
func (c Caller) encode(b []byte) []byte {
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

// sortedKeys returns the names of a map; nil for an empty map, as nearly all are: the iterators alone would be five allocations of a request.
func sortedKeys(m map[string][]string) []string {
	if len(m) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(m))
}

func decodeCaller(p []byte) (Caller, error) {
	d := newDecoder(p)
	var c Caller
	kind := d.byte()
	if kind != kindHTTP && kind != kindHTTPAs {
		return c, fmt.Errorf("%w: stream is not an HTTP request", errHead)
	}
	c.User = d.text()
	c.Groups = d.texts()
	c.Extra = d.extra()
	c.TraceParent = d.text()
	if kind == kindHTTPAs {
		c.As = &Impersonated{User: d.text(), UID: d.text(), Groups: d.texts(), Extra: d.extra()}
	}
	return c, d.end()
}

// encode appends the head to b.
func (h requestHead) encode(b []byte) []byte {
	b = appendString(b, h.method)
	b = appendString(b, h.target)
	b = binary.AppendUvarint(b, uint64(h.length+1))
	b = appendHeader(b, h.header)
	return appendStrings(b, h.trailers)
}

func decodeRequest(p []byte) (requestHead, error) {
	d := newDecoder(p)
	h := requestHead{method: d.text(), target: d.text(), length: d.length(), header: d.header()}
	h.trailers = d.names()
	switch {
	case !httpguts.ValidHeaderFieldName(h.method) || len(h.method) > maxMethod || h.method == http.MethodConnect:
		d.fail("method")
	case len(h.target) > MaxTarget || !strings.HasPrefix(h.target, "/") || strings.ContainsFunc(h.target, notInTarget):
		d.fail("target")
	}
	return h, d.end()
}

// notInTarget says which runes can't be on a request line; whoever may send them escapes them.
func notInTarget(r rune) bool { return r <= ' ' || r == 0x7f || r == '#' }

func (h responseHead) encode() []byte {
	b := binary.AppendUvarint(make([]byte, 0, usualHead), uint64(h.status))
	b = binary.AppendUvarint(b, uint64(h.length+1))
	b = appendHeader(b, h.header)
	return appendStrings(b, h.trailers)
}

func decodeResponse(p []byte) (responseHead, error) {
	d := newDecoder(p)
	h := responseHead{status: int(min(d.uvarint(), 1000)), length: d.length(), header: d.header()}
	h.trailers = d.names()
	if h.status < 100 || h.status > 999 {
		d.fail("status")
	}
	return h, d.end()
}

func decodeTrailers(p []byte) (http.Header, error) {
	d := newDecoder(p)
	h := d.header()
	return h, d.end()
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

func (d *decoder) fail(what string) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: %s", errHead, what)
	}
	d.rest = nil
}

func (d *decoder) end() error {
	if d.err == nil && len(d.rest) > 0 {
		d.fail("bytes after the end")
	}
	return d.err
}

func (d *decoder) byte() byte {
	if len(d.rest) == 0 {
		d.fail("cut short")
		return 0
	}
	b := d.rest[0]
	d.rest = d.rest[1:]
	return b
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 {
		d.fail("number")
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

// extra reads keys with their values; nil: there are none.
func (d *decoder) extra() map[string][]string {
	n := d.count(maxFields)
	if n == 0 {
		return nil
	}
	extra := make(map[string][]string)
	for range n {
		k := d.text()
		if _, twice := extra[k]; twice {
			d.fail("extra given twice")
		}
		extra[k] = d.texts()
		if d.err != nil {
			break
		}
	}
	return extra
}

func (d *decoder) length() int64 {
	v := d.uvarint()
	if v > 1<<62 {
		d.fail("length")
		return 0
	}
	return int64(v) - 1
}

// count reads how many things follow. A thing takes a byte at least, so that a wrong count allocates nothing.
func (d *decoder) count(most int) int {
	v := d.uvarint()
	if v > uint64(most) || v > uint64(len(d.rest)) {
		d.fail("count")
		return 0
	}
	return int(v)
}

func (d *decoder) bytes() string {
	n := d.uvarint()
	if n > uint64(len(d.rest)) {
		d.fail("cut short")
		return ""
	}
	at := len(d.whole) - len(d.rest)
	d.rest = d.rest[n:]
	return d.whole[at : at+int(n)]
}

func (d *decoder) text() string {
	s := d.bytes()
	if !utf8.ValidString(s) {
		d.fail("text that is not UTF-8")
		return ""
	}
	return s
}

func (d *decoder) texts() []string {
	n := d.count(maxTexts)
	if n == 0 {
		return nil
	}
	list := make([]string, n)
	for i := range list {
		list[i] = d.text()
	}
	return list
}

func (d *decoder) names() []string {
	list := d.texts()
	for i, s := range list {
		if !httpguts.ValidTrailerHeader(s) || !httpguts.ValidHeaderFieldName(s) {
			d.fail("trailer name")
			return nil
		}
		list[i] = http.CanonicalHeaderKey(s)
	}
	return list
}

func (d *decoder) header() http.Header {
	n := d.count(maxFields)
	h := make(http.Header, n)
	values := make([]string, n) // one for each field; most have one value
	for i := range n {
		k, v := d.bytes(), d.bytes()
		if d.err != nil {
			return nil
		}
		if !httpguts.ValidHeaderFieldName(k) || !httpguts.ValidHeaderFieldValue(v) {
			d.fail("header field")
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
