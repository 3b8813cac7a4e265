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
	maxGroups = 1000
	maxMethod = 64
	maxTarget = 64 << 10 // a LIST with long label selectors fits, as in the hub's listener

	usualHead = 512 // bytes; room for most
)

const contentLength = "Content-Length"

// kindHTTP in the first byte of an OPEN payload says that the stream is an HTTP request. An upgraded
// one is the same, with 101 as its response.
const kindHTTP = 1

// Caller is who asks, as the hub has verified it. It travels in the OPEN frame.
type Caller struct {
	User   string
	Groups []string
	Extra  map[string][]string
	// TraceParent continues the hub's trace (W3C); it may be empty.
	TraceParent string
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
	b = append(b, kindHTTP)
	b = appendString(b, c.User)
	b = appendStrings(b, c.Groups)
	b = binary.AppendUvarint(b, uint64(len(c.Extra)))
	for _, k := range slices.Sorted(maps.Keys(c.Extra)) {
		b = appendStrings(appendString(b, k), c.Extra[k])
	}
	return appendString(b, c.TraceParent)
}

func decodeCaller(p []byte) (Caller, error) {
	d := newDecoder(p)
	var c Caller
	if d.byte() != kindHTTP {
		return c, fmt.Errorf("%w: stream is not an HTTP request", errHead)
	}
	c.User = d.text()
	c.Groups = d.texts(maxGroups)
	if n := d.count(maxFields); n > 0 {
		c.Extra = make(map[string][]string)
		for range n {
			k := d.text()
			if _, twice := c.Extra[k]; twice {
				d.fail("extra given twice")
			}
			c.Extra[k] = d.texts(maxFields)
			if d.err != nil {
				break
			}
		}
	}
	c.TraceParent = d.text()
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
	case len(h.target) > maxTarget || !strings.HasPrefix(h.target, "/") || strings.ContainsFunc(h.target, notInTarget):
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

func (d *decoder) length() int64 {
	v := d.uvarint()
	if v > 1<<62 {
		d.fail("length")
		return 0
	}
	return int64(v) - 1
}

// count reads how many things follow. Each takes a byte at least, so that a wrong count allocates nothing.
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

func (d *decoder) texts(most int) []string {
	n := d.count(most)
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
	list := d.texts(maxFields)
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
