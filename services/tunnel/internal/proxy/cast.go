package proxy

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// A cast is what somebody saw of a shell, as asciicast of version 2: a line that says what it is, and a line for each
// output and each change of the screen's size. Typed text is not in it: it may be a password.

// castHead is its first line.
type castHead struct {
	Version   int    `json:"version"`
	Width     int    `json:"width"`
	Height    int    `json:"height"`
	Timestamp int64  `json:"timestamp"`
	Title     string `json:"title,omitempty"`
	Command   string `json:"command,omitempty"`
}

func headOf(began time.Time, title, command string) []byte {
	line, _ := json.Marshal(castHead{Version: 2, Width: 80, Height: 24, Timestamp: began.Unix(), Title: title, Command: command}) // texts and numbers
	return append(line, '\n')
}

// castLine is one event of it.
func castLine(at time.Duration, kind, text string) []byte {
	quoted, _ := json.Marshal(text) // bytes that are no UTF-8 become U+FFFD
	line := append([]byte{'['}, strconv.FormatFloat(at.Seconds(), 'f', 6, 64)...)
	line = append(line, `, "`...)
	line = append(line, kind...)
	line = append(line, `", `...)
	return append(append(line, quoted...), ']', '\n')
}

// splitText splits a text before a character that it has only a part of.
func splitText(text []byte) (all, rest []byte) {
	for i := len(text) - 1; i >= 0 && i >= len(text)-utf8.UTFMax; i-- {
		if utf8.RuneStart(text[i]) {
			if !utf8.FullRune(text[i:]) {
				return text[:i], text[i:]
			}
			break
		}
	}
	return text, nil
}

// frames finds payloads in one direction of an upgraded connection.
type frames interface {
	// feedFrames takes in what passed. out is called with parts of what the cluster sent for the screen, or of what the
	// client sent besides what was typed; begin says that the part begins a payload.
	feedFrames(p []byte, out func(part []byte, begin bool))
}

// framesOf returns those of both directions by the head of a 101, or nil if the protocol is none that is known.
func framesOf(upgrade, protocol, extensions string) (down, up frames) {
	switch {
	case strings.EqualFold(upgrade, "SPDY/3.1"):
		return &spdyFrames{}, &spdyFrames{}
	case strings.EqualFold(upgrade, "websocket") && extensions == "" && isBinary(protocol):
		return &socketFrames{}, &socketFrames{}
	}
	return nil, nil
}

// isBinary says whether messages of a protocol begin with a byte of the channel: those of others are in base64, or not
// known.
func isBinary(protocol string) bool {
	return protocol == "v5.channel.k8s.io" || protocol == "v4.channel.k8s.io" || protocol == "channel.k8s.io"
}

// spdyFrames are of SPDY/3.1. Which stream is which is in compressed heads, and a client chooses it; so all data that
// the cluster sends counts as shown.
type spdyFrames struct {
	head []byte
	left int
	data bool
}

func (s *spdyFrames) feedFrames(p []byte, out func([]byte, bool)) {
	const headBytes = 8
	for len(p) > 0 {
		if s.left > 0 {
			n := min(s.left, len(p))
			if s.data {
				out(p[:n], false)
			}
			s.left, p = s.left-n, p[n:]
			continue
		}
		n := min(headBytes-len(s.head), len(p))
		s.head, p = append(s.head, p[:n]...), p[n:]
		if len(s.head) < headBytes {
			return
		}
		s.data = s.head[0]&0x80 == 0
		s.left = int(binary.BigEndian.Uint32(s.head[4:]) & 0xffffff)
		s.head = s.head[:0]
		if s.data && s.left > 0 {
			out(nil, true)
		}
	}
}

// socketFrames are of WebSocket, with a channel as the first byte of each message.
type socketFrames struct {
	head    []byte
	left    uint64
	mask    [4]byte
	masked  bool
	at      int  // of the mask
	message bool // the frame is of a message, and not about the connection
	first   bool // its first byte is the channel
	channel byte
}

func (s *socketFrames) feedFrames(p []byte, out func([]byte, bool)) {
	for len(p) > 0 {
		if s.left > 0 {
			n := int(min(s.left, uint64(len(p))))
			part := p[:n]
			if s.masked {
				part = bytes.Clone(part)
				for i := range part {
					part[i] ^= s.mask[(s.at+i)%4]
				}
				s.at += n
			}
			s.left, p = s.left-uint64(n), p[n:]
			s.takePart(part, out)
			continue
		}
		if !s.readHead(&p) {
			return
		}
	}
}

// readHead reads the head of a frame. False: more of it has to come.
func (s *socketFrames) readHead(p *[]byte) bool {
	for len(*p) > 0 {
		s.head = append(s.head, (*p)[0])
		*p = (*p)[1:]
		if len(s.head) < 2 {
			continue
		}
		need := 2
		switch length := s.head[1] & 0x7f; length {
		case 126:
			need += 2
		case 127:
			need += 8
		}
		s.masked = s.head[1]&0x80 != 0
		lengthEnds := need
		if s.masked {
			need += 4
		}
		if len(s.head) < need {
			continue
		}
		switch length := s.head[1] & 0x7f; length {
		case 126:
			s.left = uint64(binary.BigEndian.Uint16(s.head[2:]))
		case 127:
			s.left = binary.BigEndian.Uint64(s.head[2:])
		default:
			s.left = uint64(length)
		}
		if s.masked {
			copy(s.mask[:], s.head[lengthEnds:])
		}
		opcode := s.head[0] & 0x0f
		s.message = opcode <= 2
		s.first = s.first && opcode == 0 || opcode == 1 || opcode == 2
		s.at, s.head = 0, s.head[:0]
		return true
	}
	return false
}

// Channels of remote commands.
const (
	channelOut, channelErr, channelSize = 1, 2, 4
)

func (s *socketFrames) takePart(part []byte, out func([]byte, bool)) {
	if !s.message || len(part) == 0 {
		return
	}
	begin := s.first
	if s.first {
		s.channel, part, s.first = part[0], part[1:], false
	}
	if s.channel != channelOut && s.channel != channelErr && s.channel != channelSize {
		return
	}
	out(part, begin)
}
