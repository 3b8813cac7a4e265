package mux

import (
	"encoding/binary"
	"fmt"
	"unicode/utf8"
)

// Type says what a frame is.
type Type uint8

// The frame types. Values are part of the protocol.
const (
	TypeHello     Type = 1
	TypeOpen      Type = 2
	TypeHeaders   Type = 3
	TypeData      Type = 4
	TypeHalfClose Type = 5
	TypeTrailers  Type = 6
	TypeReset     Type = 7
	TypeWindow    Type = 8
	TypePing      Type = 9
	TypePong      Type = 10
	TypeGoAway    Type = 11
)

func (t Type) String() string {
	switch t {
	case TypeHello:
		return "HELLO"
	case TypeOpen:
		return "OPEN"
	case TypeHeaders:
		return "HEADERS"
	case TypeData:
		return "DATA"
	case TypeHalfClose:
		return "HALF_CLOSE"
	case TypeTrailers:
		return "TRAILERS"
	case TypeReset:
		return "RESET"
	case TypeWindow:
		return "WINDOW"
	case TypePing:
		return "PING"
	case TypePong:
		return "PONG"
	case TypeGoAway:
		return "GOAWAY"
	default:
		return fmt.Sprintf("type %d", uint8(t))
	}
}

// Frame is one decoded frame. Payload aliases the batch that it was decoded from.
type Frame struct {
	Type    Type
	Stream  uint32
	Payload []byte
}

// headerSize: type (1 byte), payload length (3), stream (4), big endian.
const headerSize = 8

// AppendFrame appends the encoding of a frame to dst.
func AppendFrame(dst []byte, t Type, stream uint32, payload []byte) []byte {
	dst = appendHeader(dst, t, stream, len(payload))
	return append(dst, payload...)
}

func appendHeader(dst []byte, t Type, stream uint32, size int) []byte {
	dst = append(dst, byte(t), byte(size>>16), byte(size>>8), byte(size))
	return binary.BigEndian.AppendUint32(dst, stream)
}

// DecodeFrame takes the first frame off a batch. DecodeFrame refuses what the protocol does not allow, whatever the
// state of the session.
func DecodeFrame(batch []byte) (f Frame, rest []byte, err error) {
	if len(batch) < headerSize {
		return f, nil, protocolErrorf("frame header of %d bytes", len(batch))
	}
	f.Type = Type(batch[0])
	size := int(batch[1])<<16 | int(batch[2])<<8 | int(batch[3])
	f.Stream = binary.BigEndian.Uint32(batch[4:])
	rest = batch[headerSize:]
	if size > len(rest) {
		return f, nil, protocolErrorf("%v frame of %d bytes in a batch with %d left", f.Type, size, len(rest))
	}
	f.Payload, rest = rest[:size:size], rest[size:]
	if err := f.checkFrame(); err != nil {
		return f, nil, err
	}
	return f, rest, nil
}

// payloadBounds gives the least and most payload of a type, and whether it belongs to a stream.
func (t Type) payloadBounds() (least, most int, onStream, known bool) {
	switch t {
	case TypeHello:
		return helloFixed, maxHello, false, true
	case TypeOpen, TypeHeaders, TypeTrailers:
		return 0, MaxHead, true, true
	case TypeData:
		return 1, MaxData, true, true
	case TypeHalfClose:
		return 0, 0, true, true
	case TypeReset:
		return 2, 2 + MaxText, true, true
	case TypeWindow:
		return 4, 4, true, true
	case TypePing, TypePong:
		return 8, 8, false, true
	case TypeGoAway:
		return 6, 6 + MaxText, false, true
	default:
		return 0, 0, false, false
	}
}

func (f Frame) checkFrame() error {
	least, most, onStream, known := f.Type.payloadBounds()
	if !known {
		return protocolErrorf("unknown frame %v", f.Type)
	}
	if len(f.Payload) < least || len(f.Payload) > most {
		return protocolErrorf("%v frame of %d bytes", f.Type, len(f.Payload))
	}
	if onStream != (f.Stream != 0) {
		return protocolErrorf("%v frame on stream %d", f.Type, f.Stream)
	}
	switch f.Type {
	case TypeWindow:
		if n := binary.BigEndian.Uint32(f.Payload); n == 0 || n > maxCredit {
			return protocolErrorf("WINDOW of %d", n)
		}
	case TypeReset:
		if !utf8.Valid(f.Payload[2:]) {
			return protocolErrorf("RESET text that is not UTF-8")
		}
	case TypeGoAway:
		if !utf8.Valid(f.Payload[6:]) {
			return protocolErrorf("GOAWAY text that is not UTF-8")
		}
	default:
	}
	return nil
}

func appendReset(dst []byte, stream uint32, code Code, text string) []byte {
	text = clipText(text)
	dst = appendHeader(dst, TypeReset, stream, 2+len(text))
	dst = binary.BigEndian.AppendUint16(dst, uint16(code))
	return append(dst, text...)
}

func appendWindow(dst []byte, stream uint32, credit uint32) []byte {
	dst = appendHeader(dst, TypeWindow, stream, 4)
	return binary.BigEndian.AppendUint32(dst, credit)
}

func appendGoAway(dst []byte, last uint32, code Code, text string) []byte {
	text = clipText(text)
	dst = appendHeader(dst, TypeGoAway, 0, 6+len(text))
	dst = binary.BigEndian.AppendUint32(dst, last)
	dst = binary.BigEndian.AppendUint16(dst, uint16(code))
	return append(dst, text...)
}

func appendPing(dst []byte, t Type, n uint64) []byte {
	dst = appendHeader(dst, t, 0, 8)
	return binary.BigEndian.AppendUint64(dst, n)
}

// clipText makes a text fit its frame, at a rune's end.
func clipText(text string) string {
	if len(text) > MaxText {
		text = text[:MaxText]
		for len(text) > 0 && !utf8.ValidString(text[max(0, len(text)-utf8.UTFMax):]) {
			text = text[:len(text)-1]
		}
	}
	if !utf8.ValidString(text) {
		return "(text was not UTF-8)"
	}
	return text
}
