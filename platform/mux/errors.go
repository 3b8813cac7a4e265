package mux

import (
	"errors"
	"fmt"
)

// Code says why a stream was reset or a session goes away. Values are part of the protocol.
type Code uint16

// The codes.
const (
	// CodeNone: nothing went wrong; the rest of a stream is not needed any more, or the session drains.
	CodeNone Code = 0
	// CodeCancel: the one who asked gave up.
	CodeCancel Code = 1
	// CodeRefused: nothing was done with the stream; safe to try again elsewhere.
	CodeRefused Code = 2
	// CodeInternal: the side that resets failed.
	CodeInternal Code = 3
	// CodeUpstream: what is behind the side that resets failed (the API server broke off).
	CodeUpstream Code = 4
	// CodeLimit: a bound was reached.
	CodeLimit Code = 5
	// CodeProtocol: the peer broke the protocol.
	CodeProtocol Code = 6
	// CodeVersion: no version in common.
	CodeVersion Code = 7
	// CodeClosed: the session ends now, and nothing is wrong.
	CodeClosed Code = 8
)

func (c Code) String() string {
	names := [...]string{"none", "cancel", "refused", "internal", "upstream", "limit", "protocol", "version", "closed"}
	if int(c) < len(names) {
		return names[c]
	}
	return fmt.Sprintf("code %d", uint16(c))
}

var (
	// ErrGoAway: the session opens no new streams; take another.
	ErrGoAway = errors.New("session is draining")
	// ErrTooManyStreams: the session has as many streams as the peer takes.
	ErrTooManyStreams = errors.New("session has too many streams")
	// ErrNotReady: the handshake is not over yet.
	ErrNotReady = errors.New("session is not ready")
	// ErrDead: nothing was heard from the peer for two heartbeats.
	ErrDead = errors.New("nothing heard from the peer for two heartbeats")
	// ErrClosed: this side closed the session or the stream.
	ErrClosed = errors.New("closed")
)

// ProtocolError says how the peer broke the protocol.
type ProtocolError struct{ Text string }

func (e *ProtocolError) Error() string { return "tunnel protocol: " + e.Text }

func protocolErrorf(format string, args ...any) error {
	return &ProtocolError{Text: fmt.Sprintf(format, args...)}
}

// VersionError says that the two sides have no version in common.
type VersionError struct{ Ours, Theirs [2]uint8 }

func (e *VersionError) Error() string {
	return fmt.Sprintf("tunnel protocol: this side speaks versions %d to %d, the peer %d to %d: update the older one",
		e.Ours[0], e.Ours[1], e.Theirs[0], e.Theirs[1])
}

// ResetError says that the peer gave up a stream.
type ResetError struct {
	Code Code
	Text string
}

func (e *ResetError) Error() string {
	if e.Text == "" {
		return "stream reset by peer: " + e.Code.String()
	}
	return "stream reset by peer: " + e.Text
}

// GoAwayError says that the peer ended the session in words.
type GoAwayError struct {
	Code Code
	Text string
}

func (e *GoAwayError) Error() string {
	if e.Text == "" {
		return "session ended by peer: " + e.Code.String()
	}
	return "session ended by peer: " + e.Text
}
