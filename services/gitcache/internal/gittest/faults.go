package gittest

import (
	"net/http"
	"net/http/httptest"
	"strings"
)

// behind runs a request past the fault that is being played.
func (s *Server) behind(r *http.Request) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	s.mu.Lock()
	fault := s.fault
	s.fault = nil
	s.mu.Unlock()
	s.Config.Handler.ServeHTTP(rec, r)
	s.SetFault(fault)
	return rec
}

// StallAfter is a fault that sends the first n bytes of every answer to a POST that is longer, and then
// nothing until the client goes.
func (s *Server) StallAfter(n int) Fault {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if Service(r) != "fetch" {
			return false
		}
		rec := s.behind(r)
		w.Header().Set("Content-Type", rec.Header().Get("Content-Type"))
		body := rec.Body.Bytes()
		_, _ = w.Write(body[:min(n, len(body))])
		if len(body) > n {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
		return true
	}
}

// Advertise is a fault that answers every list with this, in version 0 of the protocol.
func Advertise(lines string) Fault {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/info/refs") {
			return false
		}
		w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
		_, _ = w.Write([]byte("001e# service=git-upload-pack\n0000" + lines))
		return true
	}
}

// AdvertiseForEver is a fault: a list of refs that has no end.
func AdvertiseForEver() Fault {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/info/refs") {
			return false
		}
		w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
		id := strings.Repeat("1", 40)
		_, err := w.Write([]byte("001e# service=git-upload-pack\n00000048" + id + " refs/heads/a\x00side-band-64k\n"))
		for more := []byte(strings.Repeat("003a"+id+" refs/heads/a\n", 1000)); err == nil; {
			_, err = w.Write(more)
		}
		return true
	}
}

// OnlyVersion0 is a fault: a host that does not know of later versions.
func OnlyVersion0() Fault {
	return func(_ http.ResponseWriter, r *http.Request) bool {
		r.Header.Del("Git-Protocol")
		return false
	}
}

// OnlyVersion2 is a fault: a host that speaks no older version, whatever it is asked for.
func OnlyVersion2() Fault {
	return func(_ http.ResponseWriter, r *http.Request) bool {
		r.Header.Set("Git-Protocol", "version=2")
		return false
	}
}
