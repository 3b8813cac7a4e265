package attack

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/sync/errgroup"

	e2egitcache "fairlead.dev/e2e/gitcache"
)

// wire are attacks by strangers on the listeners of the hub's parts, before any credential.
func wire() (attacks []Attack) {
	for _, part := range hubParts() {
		attacks = append(attacks,
			Attack{Name: "smuggled request behind a length and chunks at " + part, CVE: []string{"CVE-2025-22871"}, Part: part, Run: func(ctx context.Context, t *Try) (string, error) {
				return t.smuggle(ctx, part)
			}},
			Attack{Name: "odd paths at " + part, CVE: []string{"CVE-2026-33186"}, Part: part, Run: func(ctx context.Context, t *Try) (string, error) { return t.oddPaths(ctx, part) }},
			Attack{Name: "endless CONTINUATION at " + part, CVE: []string{"CVE-2023-45288"}, Part: part, Run: func(ctx context.Context, t *Try) (string, error) { return t.continuation(ctx, part) }},
			Attack{Name: "pings and settings whose answers nobody reads at " + part, CVE: []string{"CVE-2019-9512"}, Part: part, Slow: true, Run: func(ctx context.Context, t *Try) (string, error) { return t.pings(ctx, part) }},
			Attack{Name: "probes without a token at " + part, CVE: []string{"CVE-2024-37152"}, Part: part, Run: func(ctx context.Context, t *Try) (string, error) { return t.probes(ctx, part) }},
			Attack{Name: "streams that are opened and reset at " + part, CVE: []string{"CVE-2023-44487"}, Part: part, Alone: true, Slow: true, Run: func(ctx context.Context, t *Try) (string, error) {
				return t.flat(ctx, part, 80, func() (string, error) { return t.rapidReset(ctx, part) })
			}},
			Attack{Name: "streams that are made to be reset at " + part, CVE: []string{"CVE-2025-8671"}, Part: part, Alone: true, Slow: true, Run: func(ctx context.Context, t *Try) (string, error) {
				return t.flat(ctx, part, 80, func() (string, error) { return t.madeReset(ctx, part) })
			}},
			Attack{Name: "a header of a megabyte at " + part, CVE: []string{"CVE-2025-27144"}, Part: part, Run: func(ctx context.Context, t *Try) (string, error) {
				answers, err := t.say(ctx, part, "GET /version HTTP/1.1\r\nHost: hub\r\nAuthorization: Bearer "+strings.Repeat("a.", 1<<20)+"\r\n\r\n")
				if err != nil {
					return "", err
				}
				if len(answers) > 0 && answers[0].Code/100 != 4 {
					return summed(answers), errors.New("it was not refused")
				}
				return summed(answers), nil
			}},
		)
	}
	return append(
		attacks,
		Attack{Name: "2,000 bodies that stop half way", CVE: []string{"CVE-2024-58259"}, Part: console, Alone: true, Slow: true, Run: func(ctx context.Context, t *Try) (string, error) {
			return t.flat(ctx, console, 96, func() (string, error) { return t.halfBodies(ctx, 2000) })
		}},
		Attack{Name: "2,000 connections that say nothing", Part: console, Alone: true, Slow: true, Run: func(ctx context.Context, t *Try) (string, error) {
			return t.flat(ctx, console, 96, func() (string, error) { return t.idle(ctx, 2000) })
		}},
		Attack{Name: "2,000 bodies of gzip that inflate to 4 MiB", CVE: []string{"CVE-2023-40584"}, Part: console, Alone: true, Slow: true, Run: func(ctx context.Context, t *Try) (string, error) {
			return t.flat(ctx, console, 48, func() (string, error) { return t.bombs(ctx, 2000) })
		}},
		Attack{Name: "messages that lie about their length", Part: console, Run: func(ctx context.Context, t *Try) (string, error) { return t.lies(ctx) }},
		Attack{Name: "messages that are nested 10,000 deep", Part: console, Run: func(ctx context.Context, t *Try) (string, error) { return t.deep(ctx) }},
	)
}

// flat measures a part's memory around what is done: it may grow by so many MiB at most, while another address logs in.
func (t *Try) flat(ctx context.Context, part string, mib int64, do func() (string, error)) (string, error) {
	pid := t.world.Process(part).Pid()
	before := e2egitcache.RSS(pid)
	peak := before
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	var other error
	watching.Go(func() {
		neighbour := t.world.newTry()
		defer neighbour.close()
		for tick := time.NewTicker(50 * time.Millisecond); ; {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			peak = max(peak, e2egitcache.RSS(pid))
			within, stop := context.WithTimeout(ctx, 10*time.Second)
			if err := neighbour.twin(within, part); err != nil && ctx.Err() == nil {
				other = fmt.Errorf("another address was not served meanwhile: %w", err)
			}
			stop()
		}
	})
	answer, err := do()
	cancel()
	watching.Wait()
	grown := (peak - before) >> 20
	if grown > mib {
		err = errors.Join(err, fmt.Errorf("%s grew by %d MiB, more than %d", part, grown, mib))
	}
	return fmt.Sprintf("%s; memory grew by %d MiB", answer, grown), errors.Join(err, other)
}

// smuggle sends bodies whose end is a matter of opinion, each with a request in it or behind it. That request must not
// be served: two servers in a row would take it for somebody else's.
func (t *Try) smuggle(ctx context.Context, part string) (string, error) {
	behind := "GET /healthz HTTP/1.1\r\nHost: hub\r\nConnection: close\r\n\r\n"
	chunk := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(behind), behind)
	const two = "POST /nowhere HTTP/1.1\r\nHost: hub\r\nContent-Length: 2\r\n\r\n{}"
	if answers, err := t.say(ctx, part, two+behind); err != nil || len(answers) != 2 {
		return summed(answers), errors.Join(err, errors.New("the request behind one with a length is not served, so that this tries nothing"))
	}
	var words []string
	for _, framing := range []string{
		"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk,
		"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n" + chunk,
		"Content-Length: 4\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n0\r\n\r\n" + behind,
		"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" + behind,
		fmt.Sprintf("Transfer-Encoding: chunked\r\nContent-Length: %d\r\n\r\n0\r\n\r\n", 5+len(behind)) + behind,
		"Transfer-Encoding: chunked\r\n\r\n1;a\nb\r\nx\r\n0\r\n\r\n" + behind,
		"Transfer-Encoding: chunked\r\n\r\n1;a\nx\r\n0\r\n\r\n" + behind,
		"Transfer-Encoding: chunked\r\n\r\n1\r\nxx0\r\n\r\n" + behind,
		"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n" + behind,
		"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + behind,
		"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + behind,
		fmt.Sprintf("Content-Length: 0\r\nContent-Length: %d\r\n\r\n", len(behind)) + behind,
		fmt.Sprintf("Content-Length: +%d\r\n\r\n", len(behind)) + behind,
	} {
		answers, err := t.say(ctx, part, "POST /nowhere HTTP/1.1\r\nHost: hub\r\n"+framing)
		if err != nil {
			return "", err
		}
		for _, a := range answers {
			words = append(words, fmt.Sprint(a.Code))
			if a.Code/100 == 2 {
				return summed(answers), fmt.Errorf("the request behind %q was served", framing)
			}
		}
		if len(answers) > 1 {
			return summed(answers), fmt.Errorf("more than one request is seen in %q", framing)
		}
	}
	slices.Sort(words)
	return "answered with " + strings.Join(slices.Compact(words), ", "), nil
}

// oddPaths asks for a procedure that wants an identity by paths that a router could take for another one.
func (t *Try) oddPaths(ctx context.Context, part string) (string, error) {
	procedure := map[string]string{
		console: serviceService + "ListServices", gitcache: gitcacheSources + "ListSources", distributor: deliveryService + "Sync", tunnel: tunnelSessions + "ListSessions",
	}[part]
	paths := []string{
		strings.TrimPrefix(procedure, "/"), "/" + procedure, strings.Replace(procedure, "/List", "%2fList", 1), "/x/.." + procedure, "/healthz/.." + procedure,
		strings.ToUpper(procedure), procedure + "/", procedure + "%00", "/." + procedure, strings.ReplaceAll(procedure, "/", "\\"), "/v1/webhooks/.." + procedure, procedure + ";/healthz",
	}
	codes := map[int]int{}
	for _, path := range paths {
		conn, err := t.dial2(ctx, part)
		if err != nil {
			return "", err
		}
		code, body, err := conn.ask("POST", path, "{}", "content-type", "application/json")
		conn.close()
		if err != nil {
			code = 0 // refused without words
		}
		codes[code]++
		if code == http.StatusOK || code >= http.StatusInternalServerError {
			return body, fmt.Errorf("%q is answered with %d", path, code)
		}
		if err := silentOf(body, t.world.planted.all()...); err != nil {
			return body, err
		}
	}
	return fmt.Sprintf("%d paths, answered with %v", len(paths), codes), nil
}

// ask makes one request on a connection.
func (f *framer2) ask(method, path, body string, fields ...string) (code int, text string, err error) {
	head := f.head(append([]string{":method", method, ":scheme", "https", ":authority", "hub", ":path", path}, fields...)...)
	if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: head, EndHeaders: true, EndStream: body == ""}); err != nil {
		return 0, "", err
	}
	if body != "" {
		_ = f.WriteData(1, true, []byte(body)) // the answer may be there already
	}
	decoder := hpackDecoder()
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return code, text, err
		}
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				_ = f.WriteSettingsAck()
			}
		case *http2.HeadersFrame:
			fields, _ := decoder.DecodeFull(frame.HeaderBlockFragment())
			for _, field := range fields {
				if field.Name == ":status" {
					_, _ = fmt.Sscan(field.Value, &code)
				}
			}
			if frame.StreamEnded() {
				return code, text, nil
			}
		case *http2.DataFrame:
			text += string(frame.Data())
			if frame.StreamEnded() {
				return code, text, nil
			}
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			return code, text, fmt.Errorf("%s", frame.Header().Type)
		}
	}
}

// continuation sends a head without end.
func (t *Try) continuation(ctx context.Context, part string) (string, error) {
	f, err := t.dial2(ctx, part)
	if err != nil {
		return "", err
	}
	defer f.close()
	if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: f.head(":method", "GET", ":scheme", "https", ":authority", "hub", ":path", "/version"), EndStream: true}); err != nil {
		return "", err
	}
	const most = 64 << 20
	junk := f.head("x-junk", strings.Repeat("j", 12<<10))
	sent := 0
	for sent < most {
		if err := f.WriteContinuation(1, false, junk); err != nil {
			return fmt.Sprintf("closed after %d KiB", sent>>10), nil
		}
		sent += len(junk)
	}
	return "", fmt.Errorf("%d MiB of one head were taken", most>>20)
}

// pings asks for answers that are never read.
func (t *Try) pings(ctx context.Context, part string) (string, error) {
	f, err := t.dial2(ctx, part)
	if err != nil {
		return "", err
	}
	defer f.close()
	const most = 4_000_000
	for n := range most {
		if err := f.WritePing(false, [8]byte{}); err != nil {
			return fmt.Sprintf("stopped after %d frames: %v", n, err), nil
		}
		if n%8 == 0 {
			if err := f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(n % 65536)}); err != nil {
				return fmt.Sprintf("stopped after %d frames: %v", n, err), nil
			}
		}
	}
	return "", fmt.Errorf("%d frames were taken although no answer was read", most)
}

// probes asks for what tells of the inside.
func (t *Try) probes(ctx context.Context, part string) (string, error) {
	var words []string
	for _, path := range []string{"/metrics", "/debug/pprof/", "/debug/vars", "/version", "/v1/session", "/v1/artifacts/sha256:" + strings.Repeat("0", 64), "/api/v1/settings", "/api/v1/session", "/readyz", "/healthz", "/.git/config"} {
		a, err := t.get(ctx, t.world.Hub[part]+path, "")
		if err != nil {
			return "", err
		}
		if err := errors.Join(silentOf(a.Body, t.world.planted.all()...), silentOf(a.Body, t.world.redis.URL(), t.world.Dir, "goroutine ", "go_memstats")); err != nil {
			return a.String(), fmt.Errorf("%s: %w", path, err)
		}
		public := path == "/readyz" || path == "/healthz"
		if a.Code == http.StatusOK && !public && !strings.Contains(a.Header.Get("Content-Type"), "text/html") {
			return a.String(), fmt.Errorf("%s is served to nobody", path)
		}
		if public && len(a.Body) > 200 {
			return a.String(), fmt.Errorf("%s tells much", path)
		}
		words = append(words, fmt.Sprintf("%s %d", path, a.Code))
	}
	return strings.Join(words, ", "), nil
}

// rapidReset opens streams and takes each back at once.
func (t *Try) rapidReset(ctx context.Context, part string) (string, error) {
	return t.streams(ctx, part, 100_000, func(f *framer2, id uint32) error { return f.WriteRSTStream(id, http2.ErrCodeCancel) })
}

// madeReset opens streams and makes the part reset each of them.
func (t *Try) madeReset(ctx context.Context, part string) (string, error) {
	return t.streams(ctx, part, 100_000, func(f *framer2, id uint32) error {
		return f.WriteRawFrame(http2.FrameWindowUpdate, 0, id, []byte{0, 0, 0, 0})
	})
}

// streams opens streams without end on one connection, and does something to each.
func (t *Try) streams(ctx context.Context, part string, most int, then func(*framer2, uint32) error) (string, error) {
	f, err := t.dial2(ctx, part)
	if err != nil {
		return "", err
	}
	defer f.close()
	go func() { _, _ = io.Copy(io.Discard, f.conn) }() // the answers, until it is closed
	fields := []string{":method", "POST", ":scheme", "https", ":authority", "hub", ":path", serviceService + "ListServices", "content-type", "application/json"}
	for n := range most {
		id := uint32(2*n + 1)
		err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: f.head(fields...), EndHeaders: true})
		if err == nil {
			err = then(f, id)
		}
		if err != nil {
			return fmt.Sprintf("closed after %d streams", n), nil
		}
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
	}
	return fmt.Sprintf("%d streams cost the attacker more than the part", most), nil
}

// crowd opens connections from one address and says something on each. The results count the connections that were
// turned away at once, those that the part closed within the time, and those that stayed open.
func (t *Try) crowd(ctx context.Context, n int, text string, within time.Duration) (turned, cut, open int, err error) {
	var group errgroup.Group
	group.SetLimit(64)
	var mu sync.Mutex
	var conns []net.Conn
	for range n {
		group.Go(func() error {
			conn, err := t.dial(ctx, console, "http/1.1")
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				turned++
				return nil
			}
			conns = append(conns, conn)
			_, _ = io.WriteString(conn, text) // closed connections are counted below
			return nil
		})
	}
	_ = group.Wait() // no error is returned
	end := time.Now().Add(within)
	for _, conn := range conns {
		_ = conn.SetReadDeadline(end) // never fails on an open connection
		if _, err := io.Copy(io.Discard, conn); isSilence(err) {
			open++
		} else {
			cut++
		}
		_ = conn.Close()
	}
	return turned, cut, open, ctx.Err()
}

// halfBodies begins requests and never ends them.
func (t *Try) halfBodies(ctx context.Context, n int) (string, error) {
	head := "POST " + identityService + "JoinCluster HTTP/1.1\r\nHost: hub\r\nContent-Type: application/json\r\nContent-Length: 16000\r\n\r\n{\"joinToken\":\"" + strings.Repeat("x", 8000)
	turned, cut, left, err := t.crowd(ctx, n, head, 20*time.Second)
	answer := fmt.Sprintf("%d turned away, %d cut off, %d open after 20 s", turned, cut, left)
	if left > 0 {
		err = errors.Join(err, fmt.Errorf("%d half bodies are still waited for", left))
	}
	return answer, err
}

// idle opens connections and is silent.
func (t *Try) idle(ctx context.Context, n int) (string, error) {
	turned, cut, left, err := t.crowd(ctx, n, "", 8*time.Second)
	answer := fmt.Sprintf("%d turned away, %d closed, %d open after 8 s", turned, cut, left)
	const share = 1100
	if left > share {
		err = errors.Join(err, fmt.Errorf("one address keeps %d connections without an identity", left))
	}
	return answer, err
}

// bombs sends compressed messages to procedures that need no identity.
func (t *Try) bombs(ctx context.Context, n int) (string, error) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = io.WriteString(w, `{"token":"`+strings.Repeat("x", 4<<20)+`"}`) // never fails into memory
	if err := w.Close(); err != nil {
		return "", err
	}
	begin := time.Now()
	var group errgroup.Group
	group.SetLimit(16)
	for range n {
		group.Go(func() error {
			a, err := t.send(ctx, http.MethodPost, t.world.Hub[console]+tokenService+"ExchangeToken", "", bytes.NewReader(packed.Bytes()), "Content-Type", "application/json", "Content-Encoding", "gzip")
			if err == nil && a.Code != http.StatusBadRequest && a.Code != http.StatusTooManyRequests && a.Code != http.StatusRequestEntityTooLarge {
				err = fmt.Errorf("answered with %s", a)
			}
			return err
		})
	}
	err := group.Wait()
	return fmt.Sprintf("%d bombs of %d bytes were refused in %.1f s", n, packed.Len(), time.Since(begin).Seconds()), err
}

// lies sends streams' messages and bodies that are shorter than they say.
func (t *Try) lies(ctx context.Context) (string, error) {
	var words []string
	for _, length := range []uint32{1 << 30, 1<<32 - 1, 5 << 20} {
		body := append(binary.BigEndian.AppendUint32([]byte{0}, length), "{}"...)
		a, err := t.send(ctx, http.MethodPost, t.world.Hub[console]+consoleV1+"LiveService/WatchResources", t.world.callers.stranger, bytes.NewReader(body), "Content-Type", "application/connect+json")
		if err != nil {
			return "", err
		}
		words = append(words, strings.TrimSpace(a.Body))
		if !strings.Contains(a.Body, `"error"`) || strings.Contains(a.Body, `"internal"`) {
			return a.String(), fmt.Errorf("a message of %d bytes that has 2 is not refused", length)
		}
	}
	return strings.Join(words, " / "), nil
}

// deep sends messages that are nested deeper than any that is meant.
func (t *Try) deep(ctx context.Context) (string, error) {
	const levels = 10_000
	text, err := t.call(ctx, console, consoleV1+"ApplyService/Apply", t.world.callers.stranger, `{"x":`+strings.Repeat(`{"x":`, levels)+"1"+strings.Repeat("}", levels)+"}")
	if err != nil {
		return "", err
	}
	if _, err := text.want(http.StatusBadRequest, http.StatusForbidden); err != nil {
		return text.String(), err
	}
	var nested []byte
	for range levels { // groups within groups: field 15, which no message has
		nested = append(nested, 15<<3|3)
	}
	a, err := t.send(ctx, http.MethodPost, t.world.Hub[console]+consoleV1+"ApplyService/Apply", t.world.callers.stranger, bytes.NewReader(nested), "Content-Type", "application/proto")
	if err != nil {
		return "", err
	}
	return a.want(http.StatusBadRequest, http.StatusForbidden)
}
