package agent

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// accountTokenOf is a service account's token from one second to another, without a signature.
func accountTokenOf(issued, ends int64) string {
	return "e30." + base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"iat":%d,"exp":%d}`, issued, ends)) + ".x"
}

// In a pod client-go has the token of the agent's start beside its file, which the kubelet renews.
func TestEndOfARenewedTokenIsThatOfItsFile(t *testing.T) {
	t.Parallel()
	const start, renewed = 1_700_000_000, 1_700_003_000
	old := accountTokenOf(start, start+3600)
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(accountTokenOf(renewed, renewed+3600)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		token, file string
		begins      int64
	}{
		"both":                   {old, file, renewed},
		"a file":                 {"", file, renewed},
		"a token":                {old, "", start},
		"a file that is missing": {old, file + ".missing", start},
	} {
		begin, end, ok := accountToken([]byte(test.token), test.file)
		if !ok || begin.Unix() != test.begins || end.Unix() != test.begins+3600 {
			t.Errorf("%s: from %v to %v, known %t", name, begin, end, ok)
		}
	}
}
