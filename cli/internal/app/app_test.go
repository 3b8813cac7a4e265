package app

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"connectrpc.com/connect"
)

// With a hub and a token in the environment nothing of a person's folder is needed.
func TestTheEnvironmentNeedsNoFolderForTheConfiguration(t *testing.T) {
	t.Parallel()
	const unknown = "where to keep the configuration is unknown"
	for _, tc := range []struct {
		env   map[string]string
		fails string
	}{
		{map[string]string{"FAIRLEAD_TOKEN": "token", "FAIRLEAD_SERVER": "http://127.0.0.1:1"}, ""},
		{map[string]string{"FAIRLEAD_TOKEN": "token"}, unknown},
		{map[string]string{"FAIRLEAD_SERVER": "http://127.0.0.1:1"}, unknown},
		{nil, unknown},
	} {
		a := &App{IO: IO{Getenv: func(name string) string { return tc.env[name] }}}
		_, err := a.ConnectHub(t.Context())
		if (err == nil) != (tc.fails == "") || err != nil && !strings.HasPrefix(err.Error(), tc.fails) {
			t.Errorf("%v: %v, want %q", tc.env, err, tc.fails)
		}
	}
}

// A watch shows its text again after a restart of the hub; another error ends it, and so does a hub that was never
// there.
func TestAWatchOutlastsARestartOfTheHub(t *testing.T) {
	t.Parallel()
	stops := connect.NewError(connect.CodeUnavailable, errors.New("the console stops"))
	over := connect.NewError(connect.CodeNotFound, errors.New("it is over"))
	for name, tc := range map[string]struct {
		answers               []any
		stdout, stderr, fails string
	}{
		"a restart": {
			[]any{"one\n", stops, stops, "two\n", over},
			"one\n\ntwo\n",
			"the hub is asked again: unavailable: the console stops\n", "not_found: it is over",
		},
		"never there": {[]any{stops}, "", "", "unavailable: the console stops"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			a := &App{IO: IO{Stdout: &stdout, Stderr: &stderr}}
			err := a.RepeatText(t.Context(), FormatTable, func(context.Context) (string, error) {
				answer := tc.answers[0]
				tc.answers = tc.answers[1:]
				text, _ := answer.(string)
				err, _ := answer.(error)
				return text, err
			})
			if err == nil || err.Error() != tc.fails || stdout.String() != tc.stdout || stderr.String() != tc.stderr {
				t.Errorf("%s: stdout %q, stderr %q, %v", name, &stdout, &stderr, err)
			}
		})
	}
}

// A certificate and a host name that are wrong stay wrong.
func TestOutagesAreToldFromOtherErrors(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"no connection":      {connect.NewError(connect.CodeUnavailable, syscall.ECONNREFUSED), true},
		"a broken stream":    {connect.NewError(connect.CodeInternal, io.ErrUnexpectedEOF), true},
		"a slow hub":         {connect.NewError(connect.CodeDeadlineExceeded, context.DeadlineExceeded), true},
		"a mistake of a hub": {connect.NewWireError(connect.CodeInternal, errors.New("it is broken")), false},
		"no right":           {connect.NewWireError(connect.CodePermissionDenied, errors.New("no")), false},
		"an unknown authority": {connect.NewError(connect.CodeUnavailable,
			&tls.CertificateVerificationError{Err: errors.New("unknown authority")}), false},
		"an unknown host":    {connect.NewError(connect.CodeUnavailable, &net.DNSError{IsNotFound: true}), false},
		"no error of a call": {errors.New("no service \"shop\""), false},
	} {
		if got := isOutage(tc.err); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestTheNullDeviceIsNoTerminal(t *testing.T) {
	t.Parallel()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	if IsTerminal(null) {
		t.Error("nobody reads or writes there")
	}
}
