package reach

import (
	"bytes"
	"io"
	"net/http"
	"testing"
	"testing/iotest"
)

// roundTrip reads a request's body as a transport does.
type roundTrip func(io.Reader)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) {
	f(r.Body)
	return nil, http.ErrUseLastResponse
}

func TestMessagesAreReadWhole(t *testing.T) {
	t.Parallel()
	messages := [][]byte{{0, 0, 0, 0, 3, 'a', 'b', 'c'}, {0, 0, 0, 0, 0}, append([]byte{0, 0, 0, 0x40, 0}, make([]byte, 1<<14)...)}
	send := func(read func(io.Reader)) {
		from, to := io.Pipe()
		go func() {
			for _, m := range messages {
				_, _ = to.Write(m[:5]) // as Connect does
				if len(m) > 5 {
					_, _ = to.Write(m[5:])
				}
			}
			_ = to.Close()
		}()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://hub.invalid", from)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = wholeMessages{roundTrip(read)}.RoundTrip(req)
	}
	send(func(r io.Reader) {
		buf := make([]byte, 64<<10)
		for i, m := range messages {
			if n, err := r.Read(buf); err != nil || !bytes.Equal(buf[:n], m) {
				t.Errorf("read %d: %d bytes, %v", i, n, err)
			}
		}
		if n, err := r.Read(buf); n != 0 || err != io.EOF {
			t.Errorf("at the end: %d, %v", n, err)
		}
	})
	all := bytes.Join(messages, nil)
	for name, small := range map[string]func(io.Reader) io.Reader{
		"a byte at a time": iotest.OneByteReader, "less than a message": func(r io.Reader) io.Reader { return &shortReader{r} },
	} {
		send(func(r io.Reader) {
			if got, err := io.ReadAll(small(r)); err != nil || !bytes.Equal(got, all) {
				t.Errorf("%s: %d bytes, %v", name, len(got), err)
			}
		})
	}
}

type shortReader struct{ io.Reader }

func (r *shortReader) Read(p []byte) (int, error) { return r.Reader.Read(p[:min(len(p), 100)]) }
