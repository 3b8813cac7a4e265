package tunnelclient

import (
	"errors"
	"fmt"
	"net"
	"testing"

	"connectrpc.com/connect"

	"fairlead.dev/platform/mux/muxws"
)

// Another carrier is tried where this one may be at fault: not if nobody was reached, and not if the hub refused in its
// own words.
func TestAnotherCarrierIsTriedWhereThisOneMayBeAtFault(t *testing.T) {
	t.Parallel()
	why := errors.New("why")
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"not reached":                 {&net.OpError{Op: "dial", Err: why}, false},
		"not reached, said by a call": {connect.NewError(connect.CodeUnavailable, &net.OpError{Op: "dial", Err: why}), false},
		"cut off":                     {&net.OpError{Op: "read", Err: why}, true},
		"401":                         {connect.NewError(connect.CodeUnauthenticated, why), false},
		"429":                         {fmt.Errorf("dial: %w", connect.NewError(connect.CodeResourceExhausted, why)), false},
		"not allowed":                 {connect.NewError(connect.CodePermissionDenied, why), false},
		"a cluster that is gone":      {connect.NewError(connect.CodeNotFound, why), false},
		"refused by the hub":          {connect.NewError(connect.CodeFailedPrecondition, why), false},
		"502 of a proxy":              {connect.NewError(connect.CodeUnavailable, why), true},
		"HTTP/1.1 on the way":         {connect.NewError(connect.CodeUnimplemented, why), true},
		"any other":                   {why, true},
	} {
		if got := blamesCarrier(tc.err); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// A hub that was starting is no reason to remember the other carrier: another answer of a proxy on the way is.
func TestAnAnswerOfAHubThatStartsPasses(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]bool{
		400: false, 403: false, 500: false, 501: false, 502: true, 503: true,
		504: true, 505: false,
	} {
		if got := passes(fmt.Errorf("dial: %w", &muxws.RefusedError{Status: status})); got != want {
			t.Errorf("%d: %t", status, got)
		}
	}
	if passes(errors.New("cut off")) {
		t.Error("what nobody answered passes")
	}
}
