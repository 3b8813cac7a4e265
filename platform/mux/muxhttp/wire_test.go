package muxhttp

import (
	"net/http"
	"reflect"
	"testing"
)

// The fuzz targets hold that what decodes is something that encodes and decodes to the same again.

func FuzzDecodeCaller(f *testing.F) {
	f.Add(Caller{
		User: "alice", Groups: []string{"a"}, Extra: map[string][]string{"k": {"v"}},
		TraceParent: "00",
	}.appendCaller(nil))
	f.Add(Caller{User: "alice", As: &Impersonated{
		User: "bob", UID: "1", Groups: []string{"a"},
		Extra: map[string][]string{"k": {"v"}},
	}}.appendCaller(nil))
	f.Fuzz(func(t *testing.T, p []byte) {
		c, err := decodeCaller(p)
		if err != nil {
			return
		}
		if again, err := decodeCaller(c.appendCaller(nil)); err != nil || !reflect.DeepEqual(c, again) {
			t.Errorf("%+v, then %+v, %v", c, again, err)
		}
	})
}

func FuzzDecodeRequest(f *testing.F) {
	f.Add(requestHead{
		method: "GET", target: "/api?x=y", length: 5, header: http.Header{"A": {"b", "c"}},
		trailers: []string{"T"},
	}.appendHead(nil))
	f.Fuzz(func(t *testing.T, p []byte) {
		h, err := decodeRequest(p)
		if err != nil {
			return
		}
		if validHeader(h.header) != nil || h.length < -1 {
			t.Errorf("decoded %+v", h)
		}
		if again, err := decodeRequest(h.appendHead(nil)); err != nil || !reflect.DeepEqual(h, again) {
			t.Errorf("%+v, then %+v, %v", h, again, err)
		}
	})
}

func FuzzDecodeResponse(f *testing.F) {
	f.Add(responseHead{status: 200, length: -1, header: http.Header{"A": {"b"}}, trailers: []string{"T"}}.encodeHead())
	f.Fuzz(func(t *testing.T, p []byte) {
		h, err := decodeResponse(p)
		if err != nil {
			return
		}
		if again, err := decodeResponse(h.encodeHead()); err != nil || !reflect.DeepEqual(h, again) {
			t.Errorf("%+v, then %+v, %v", h, again, err)
		}
	})
}

func FuzzDecodeTrailers(f *testing.F) {
	f.Add(appendHeader(nil, http.Header{"A": {"b"}}))
	f.Fuzz(func(t *testing.T, p []byte) {
		h, err := decodeTrailers(p)
		if err == nil && validHeader(h) != nil {
			t.Errorf("decoded %+v", h)
		}
	})
}
