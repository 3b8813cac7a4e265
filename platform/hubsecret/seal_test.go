package hubsecret_test

import (
	"bytes"
	"errors"
	"testing"

	"fairlead.dev/platform/hubsecret"
)

func TestWhatIsSealedIsOpenedAsLongAsItsSecretIsThere(t *testing.T) {
	t.Parallel()
	const first, second = "0123456789abcdef", "fedcba9876543210"
	text, context := []byte("what somebody saw"), []byte("recording 1 piece 1")
	sealed, err := hubsecret.Text(first).Seal(hubsecret.Recordings, text, context)
	if err != nil || bytes.Contains(sealed, text[:4]) {
		t.Fatalf("sealed %q, %v", sealed, err)
	}
	for what, tc := range map[string]struct {
		secrets, purpose string
		sealed, context  []byte
		opens            bool
	}{
		"the same secret":    {first, hubsecret.Recordings, sealed, context, true},
		"rotated":            {second + "\n" + first, hubsecret.Recordings, sealed, context, true},
		"the secret is gone": {second, hubsecret.Recordings, sealed, context, false},
		"another purpose":    {first, hubsecret.Members, sealed, context, false},
		"another context":    {first, hubsecret.Recordings, sealed, []byte("recording 1 piece 2"), false},
		"cut off":            {first, hubsecret.Recordings, sealed[:len(sealed)-1], context, false},
		"nothing":            {first, hubsecret.Recordings, nil, context, false},
	} {
		got, err := hubsecret.Text(tc.secrets).Open(tc.purpose, tc.sealed, tc.context)
		if tc.opens && !bytes.Equal(got, text) || !tc.opens && !errors.Is(err, hubsecret.ErrSealed) {
			t.Errorf("%s: %q, %v", what, got, err)
		}
	}
}
