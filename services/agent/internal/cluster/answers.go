package cluster

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// maxAnswer bounds one answer of the API server, and one event of a watch, in bytes. client-go reads each of them
// whole, and not only Kubernetes answers: an APIService hands the requests for a group to any server. client-go itself
// bounds events in Protobuf alike.
const maxAnswer = 16 << 20

// ErrAnswerSize: an answer of the API server has more than maxAnswer.
var ErrAnswerSize = fmt.Errorf("the API server answers with more than %d MiB", maxAnswer>>20)

// boundAnswers cuts answers off behind maxAnswer.
func boundAnswers(next http.RoundTripper) http.RoundTripper { return bounded{next, wholeAnswer} }

// boundEvents is boundAnswers for watches and logs, which have no end: errors are cut off, and each event of a watch.
func boundEvents(next http.RoundTripper) http.RoundTripper {
	return bounded{next, func(resp *http.Response) io.ReadCloser {
		switch {
		case resp.StatusCode != http.StatusOK:
			return wholeAnswer(resp)
		case strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json"):
			return &events{ReadCloser: resp.Body}
		default: // Protobuf, which is bounded, or a log, which is read line by line
			return resp.Body
		}
	}}
}

type bounded struct {
	next http.RoundTripper
	body func(*http.Response) io.ReadCloser
}

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	resp.Body = b.body(resp)
	return resp, nil
}

// CloseIdleConnections implements what http.Client asks for.
func (b bounded) CloseIdleConnections() {
	if c, ok := b.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

func wholeAnswer(resp *http.Response) io.ReadCloser { return &answer{resp.Body, maxAnswer} }

// answer is a body that may have so many bytes more.
type answer struct {
	io.ReadCloser

	left int
}

func (a *answer) Read(into []byte) (int, error) {
	n, err := a.ReadCloser.Read(into)
	if a.left -= n; a.left < 0 {
		return 0, ErrAnswerSize
	}
	return n, err
}

// events is a body of JSON values, each of which is bounded.
type events struct {
	io.ReadCloser

	size, depth   int // of the value that is being read
	text, escaped bool
}

func (e *events) Read(into []byte) (int, error) {
	n, err := e.ReadCloser.Read(into)
	for _, b := range into[:n] {
		if e.take(b); e.size > maxAnswer {
			return 0, ErrAnswerSize
		}
	}
	return n, err
}

// take looks at one byte: braces within texts don't count.
func (e *events) take(b byte) {
	e.size++
	switch {
	case e.escaped:
		e.escaped = false
	case e.text:
		e.escaped, e.text = b == '\\', b != '"'
	case b == '"':
		e.text = true
	case b == '{' || b == '[':
		e.depth++
	case b == '}' || b == ']':
		if e.depth--; e.depth <= 0 {
			e.size, e.depth = 0, 0
		}
	}
}

// smaller says whether a page of a list was too large and may be asked for again with fewer objects.
func smaller(err error, limit *int64) bool {
	const fewer = 8
	if !errors.Is(err, ErrAnswerSize) || *limit <= 1 {
		return false
	}
	*limit = max(1, *limit/fewer)
	return true
}
