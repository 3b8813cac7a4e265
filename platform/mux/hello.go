package mux

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"
)

// The versions of the protocol that this package speaks.
const (
	minVersion = 1
	maxVersion = 1
)

// helloMagic begins every HELLO, so that a peer that speaks something else is recognised at once.
const helloMagic = "FLMX"

// helloFixed: magic, min and max version, initial window, most streams, number of properties.
const helloFixed = 4 + 1 + 1 + 4 + 4 + 1

// Hello is what a side says of itself when a session begins.
type Hello struct {
	MinVersion, MaxVersion uint8
	// Window is the credit that the peer has on every new stream.
	Window uint32
	// MaxStreams is how many streams the peer may have open at once; 0 from a side that accepts none.
	MaxStreams uint32
	// Properties are words for the other side (version of the program), bounded and not interpreted here.
	Properties map[string]string
}

// Append appends the encoding of the HELLO's payload to dst.
func (h Hello) Append(dst []byte) []byte {
	dst = append(dst, helloMagic...)
	dst = append(dst, h.MinVersion, h.MaxVersion)
	dst = binary.BigEndian.AppendUint32(dst, h.Window)
	dst = binary.BigEndian.AppendUint32(dst, h.MaxStreams)
	dst = append(dst, byte(len(h.Properties)))
	for _, k := range slices.Sorted(maps.Keys(h.Properties)) {
		dst = appendShort(appendShort(dst, k), h.Properties[k])
	}
	return dst
}

func appendShort(dst []byte, s string) []byte {
	dst = append(dst, byte(len(s)))
	return append(dst, s...)
}

// validProperties says whether properties fit a HELLO.
func validProperties(p map[string]string) error {
	if len(p) > maxProperties {
		return fmt.Errorf("%d session properties, at most %d fit", len(p), maxProperties)
	}
	for k, v := range p {
		if k == "" || len(k) > 63 || len(v) > 127 || !utf8.ValidString(k+v) {
			return fmt.Errorf("session property %q: name (1-63 bytes) or value (at most 127) does not fit", k)
		}
	}
	return nil
}

// DecodeHello decodes a HELLO's payload.
func DecodeHello(p []byte) (Hello, error) {
	var h Hello
	if len(p) < helloFixed || string(p[:4]) != helloMagic {
		return h, protocolErrorf("first frame is not a HELLO of this protocol")
	}
	h.MinVersion, h.MaxVersion = p[4], p[5]
	h.Window = binary.BigEndian.Uint32(p[6:])
	h.MaxStreams = binary.BigEndian.Uint32(p[10:])
	n := int(p[14])
	if h.MinVersion == 0 || h.MinVersion > h.MaxVersion || h.Window > maxCredit || n > maxProperties {
		return h, protocolErrorf("HELLO with impossible values")
	}
	p = p[helloFixed:]
	for range n {
		var k, v string
		var ok bool
		if k, p, ok = takeShort(p); !ok {
			return h, protocolErrorf("HELLO cut short")
		}
		if v, p, ok = takeShort(p); !ok {
			return h, protocolErrorf("HELLO cut short")
		}
		if h.Properties == nil {
			h.Properties = make(map[string]string, n)
		}
		if _, twice := h.Properties[k]; twice {
			return h, protocolErrorf("HELLO with a property twice")
		}
		h.Properties[k] = v
	}
	if len(p) != 0 {
		return h, protocolErrorf("HELLO with %d bytes too many", len(p))
	}
	if err := validProperties(h.Properties); err != nil {
		return h, protocolErrorf("HELLO: %v", err)
	}
	return h, nil
}

func takeShort(p []byte) (s string, rest []byte, ok bool) {
	if len(p) < 1 || len(p) < 1+int(p[0]) {
		return "", nil, false
	}
	n := int(p[0])
	return string(p[1 : 1+n]), p[1+n:], true
}

// negotiateVersion picks the highest version that both sides speak.
func negotiateVersion(ours, theirs Hello) (uint8, error) {
	v := min(ours.MaxVersion, theirs.MaxVersion)
	if v < ours.MinVersion || v < theirs.MinVersion {
		return 0, &VersionError{Ours: [2]uint8{ours.MinVersion, ours.MaxVersion}, Theirs: [2]uint8{theirs.MinVersion, theirs.MaxVersion}}
	}
	return v, nil
}
