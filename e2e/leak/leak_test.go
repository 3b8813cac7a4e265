package leak

import (
	"encoding/base64"
	"encoding/hex"
	"testing"
)

func TestSecretsAreFoundInWhateverForm(t *testing.T) {
	t.Parallel()
	secrets := map[string]string{"a": "planted-secret+value"}
	for _, before := range []string{"", "x", "xy", "xyz"} {
		text := []byte(before + secrets["a"] + "behind")
		for _, form := range []string{
			string(text), base64.StdEncoding.EncodeToString(text), hex.EncodeToString(text),
			before + "planted-secret%2Bvalue",
		} {
			if In(secrets, []byte("some "+form+" more")) != "a" {
				t.Errorf("is not found in %s", form)
			}
		}
	}
	if got := In(secrets, []byte("planted-secret")); got != "" {
		t.Errorf("found %s where it is not", got)
	}
}
