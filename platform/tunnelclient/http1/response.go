package http1

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
)

const (
	// maxHead bounds an answer's head and its trailers, in bytes and fields.
	maxHead, maxFields = 128 << 10, 1000
	// maxInformational bounds the 1xx answers before the final one.
	maxInformational = 16
	// maxChunkLine bounds the line before a chunk; servers send a dozen bytes.
	maxChunkLine = 256
)

// errMalformed: the server's answer is no HTTP/1.1 that all readers understand in the same way.
var errMalformed = errors.New("the answer is malformed")

func malformed(what string) error { return fmt.Errorf("%w: %s", errMalformed, what) }

// readResponse reads heads until that of the final answer. Its body is http.NoBody or a *body.
func readResponse(cn *conn, r *http.Request) (*http.Response, error) {
	for range maxInformational + 1 {
		resp, err := readHead(cn.reader)
		switch {
		case err != nil:
			return nil, err
		case resp.StatusCode == http.StatusSwitchingProtocols:
			return nil, malformed("the protocol was changed without being asked")
		case resp.StatusCode >= 200:
			resp.Request = r
			return resp, frame(resp, cn, r)
		}
		if resp.Header["Content-Length"] != nil || resp.Header["Transfer-Encoding"] != nil {
			return nil, malformed("an informational answer with a body")
		}
		if trace := httptrace.ContextClientTrace(r.Context()); trace != nil && trace.Got1xxResponse != nil {
			if err := trace.Got1xxResponse(resp.StatusCode, textproto.MIMEHeader(resp.Header)); err != nil {
				return nil, err
			}
		}
	}
	return nil, malformed("too many informational answers")
}

// readHead reads a status line and fields.
func readHead(r *bufio.Reader) (*http.Response, error) {
	text, err := readLines(r)
	if err != nil {
		return nil, err
	}
	status, fields, _ := strings.Cut(text, "\r\n")
	resp := &http.Response{ProtoMajor: 1}
	version, rest, _ := strings.Cut(status, " ")
	switch version {
	case "HTTP/1.1":
		resp.ProtoMinor = 1
	case "HTTP/1.0":
		resp.Close = true
	default:
		return nil, malformed("not HTTP/1.1")
	}
	code, reason, _ := strings.Cut(rest, " ")
	n, err := strconv.ParseUint(code, 10, 16)
	if err != nil || len(code) != 3 || n < 100 || !httpguts.ValidHeaderFieldValue(reason) {
		return nil, malformed("status line")
	}
	resp.Proto, resp.Status, resp.StatusCode = version, rest, int(n)
	resp.Header, err = parseFields(fields)
	return resp, err
}

// readLines reads up to and with an empty line, which it leaves out.
func readLines(r *bufio.Reader) (string, error) {
	// Most heads are in the buffer as a whole.
	if n := r.Buffered(); n > 0 {
		all, _ := r.Peek(n) // the bytes are there
		if bytes.HasPrefix(all, []byte("\r\n")) {
			_, _ = r.Discard(2)
			return "", nil
		}
		if end := bytes.Index(all, []byte("\r\n\r\n")); end >= 0 {
			text := string(all[:end+2])
			_, _ = r.Discard(end + 4)
			return text, nil
		}
	}
	var text []byte
	for {
		line, err := r.ReadSlice('\n')
		if len(text)+len(line) > maxHead {
			return "", malformed("its head is too large")
		}
		text = append(text, line...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case err != nil:
			return "", unexpected(err)
		case !bytes.HasSuffix(text, []byte("\r\n")):
			return "", malformed("a line without CR")
		case string(text) == "\r\n":
			return "", nil
		case bytes.HasSuffix(text, []byte("\r\n\r\n")):
			return string(text[:len(text)-2]), nil
		}
	}
}

// parseFields reads lines that each end with CR LF. All texts are parts of one.
func parseFields(text string) (http.Header, error) {
	count := strings.Count(text, "\n")
	if count > maxFields {
		return nil, malformed("too many header fields")
	}
	h := make(http.Header, count)
	values := make([]string, count) // one for each; most fields come once
	for i := 0; text != ""; i++ {
		line, rest, whole := strings.Cut(text, "\r\n")
		text = rest
		name, value, found := strings.Cut(line, ":")
		if !whole || !found || !httpguts.ValidHeaderFieldName(name) {
			return nil, malformed("header field") // also folded lines, and blanks before the colon
		}
		if value = strings.Trim(value, " \t"); !httpguts.ValidHeaderFieldValue(value) {
			return nil, malformed("value of a header field") // also a CR or LF on its own
		}
		name = http.CanonicalHeaderKey(name)
		if h[name] != nil {
			h[name] = append(h[name], value)
			continue
		}
		values[i] = value
		h[name] = values[i : i+1 : i+1]
	}
	return h, nil
}

// frame finds out where the answer ends.
func frame(resp *http.Response, cn *conn, r *http.Request) error {
	length, err := contentLength(resp.Header)
	if err != nil {
		return err
	}
	codings := resp.Header["Transfer-Encoding"]
	chunked := len(codings) == 1 && strings.EqualFold(codings[0], "chunked") && resp.ProtoMinor == 1
	if len(codings) > 0 && (!chunked || length >= 0) {
		return malformed("its length is not clear")
	}
	if httpguts.HeaderValuesContainsToken(resp.Header["Connection"], "close") {
		resp.Close = true
	}
	delete(resp.Header, "Transfer-Encoding")
	resp.ContentLength = length
	if chunked {
		resp.Trailer = announced(resp.Header)
	}
	resp.Body = http.NoBody
	switch {
	case resp.StatusCode == http.StatusNoContent && (chunked || length > 0):
		resp.Close = true // something may follow nevertheless
		fallthrough
	case resp.StatusCode == http.StatusNoContent, resp.StatusCode == http.StatusNotModified:
		resp.ContentLength = 0
		return nil
	case r.Method == http.MethodHead, length == 0:
		return nil
	}
	b := &body{conn: cn, ctx: r.Context(), reusable: !resp.Close}
	switch {
	case chunked:
		resp.TransferEncoding = []string{"chunked"}
		b.framing = &chunks{trailer: &resp.Trailer}
	case length > 0:
		b.framing = &counted{left: length}
	default:
		resp.Close, b.reusable, b.framing = true, false, toTheEnd{}
	}
	resp.Body = b
	return nil
}

// contentLength is -1 if there is none.
func contentLength(h http.Header) (int64, error) {
	values := h["Content-Length"]
	if len(values) == 0 {
		return -1, nil
	}
	n, err := strconv.ParseUint(values[0], 10, 62)
	if err != nil || len(values) > 1 {
		return 0, malformed("Content-Length")
	}
	return int64(n), nil
}

// announced takes the names of trailers out of a header.
func announced(h http.Header) http.Header {
	var trailer http.Header
	for _, line := range h["Trailer"] {
		for name := range strings.SplitSeq(line, ",") {
			name = http.CanonicalHeaderKey(textproto.TrimString(name))
			if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidTrailerHeader(name) {
				continue
			}
			if trailer == nil {
				trailer = make(http.Header)
			}
			trailer[name] = nil
		}
	}
	delete(h, "Trailer")
	return trailer
}

// counted is a body with a Content-Length.
type counted struct{ left int64 }

func (c *counted) read(r *bufio.Reader, p []byte) (int, error) {
	n, err := r.Read(p[:min(int64(len(p)), c.left)])
	if c.left -= int64(n); c.left == 0 {
		return n, io.EOF
	}
	return n, unexpected(err)
}

// toTheEnd is a body that ends with its connection.
type toTheEnd struct{}

func (toTheEnd) read(r *bufio.Reader, p []byte) (int, error) { return r.Read(p) }

// chunks is a body in chunks.
type chunks struct {
	left    int64 // of the chunk
	within  bool  // a chunk was begun, whose end is to come
	trailer *http.Header
}

func (c *chunks) read(r *bufio.Reader, p []byte) (int, error) {
	if c.left == 0 {
		if err := c.next(r); err != nil {
			return 0, err
		}
	}
	n, err := r.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, unexpected(err)
}

// next begins the next chunk; io.EOF: that was the last one.
func (c *chunks) next(r *bufio.Reader) error {
	if c.within {
		if line, err := r.Peek(2); err != nil {
			return unexpected(err)
		} else if string(line) != "\r\n" {
			return malformed("end of a chunk")
		}
		_, _ = r.Discard(2)
	}
	line, err := r.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull), len(line) > maxChunkLine:
		return malformed("the line before a chunk is too long")
	case err != nil:
		return unexpected(err)
	}
	if c.left, err = chunkSize(line); err != nil {
		return err
	}
	if c.within = true; c.left > 0 {
		return nil
	}
	return c.end(r)
}

// chunkSize reads a line before a chunk.
func chunkSize(line []byte) (int64, error) {
	text, ok := strings.CutSuffix(string(line), "\r\n")
	size, extension, _ := strings.Cut(text, ";")
	size = strings.TrimRight(size, " \t")
	if !ok || size == "" || len(size) > 15 || !httpguts.ValidHeaderFieldValue(extension) {
		return 0, malformed("size of a chunk")
	}
	for _, c := range []byte(size) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') && (c < 'A' || c > 'F') {
			return 0, malformed("size of a chunk")
		}
	}
	return strconv.ParseInt(size, 16, 64)
}

// end reads the trailers.
func (c *chunks) end(r *bufio.Reader) error {
	text, err := readLines(r)
	if err != nil {
		return err
	}
	fields, err := parseFields(text)
	if err != nil {
		return err
	}
	maps.DeleteFunc(fields, func(name string, _ []string) bool { return !httpguts.ValidTrailerHeader(name) })
	if len(fields) > 0 && *c.trailer == nil {
		*c.trailer = make(http.Header, len(fields))
	}
	maps.Copy(*c.trailer, fields)
	return io.EOF
}

// unexpected makes the connection's end before the answer's an error.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
