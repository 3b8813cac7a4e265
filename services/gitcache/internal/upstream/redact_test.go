package upstream

import "testing"

func TestPartsOfCredentialsAreRedactedWhereATextWasCut(t *testing.T) {
	t.Parallel()
	r := Remote{Credentials: Credentials{
		Username: "ada", Password: "s3cret-password", ProxyUsername: "bob",
		ProxyPassword: "pr0xy-password",
	}}
	for text, want := range map[string]string{
		"it says s3cret-password, twice: s3cret-password": "it says redacted, twice: redacted",
		"it says s3cret-pa...":                            "it says redacted",
		"it says pr0xy-pass":                              "it says redacted",
		"it says YWRhOnMzY3JldC1wY":                       "it says redacted",
		"it says s3c...":                                  "it says s3c...",
		"it says nothing":                                 "it says nothing",
	} {
		if got := r.RedactText(text); got != want {
			t.Errorf("%q became %q", text, got)
		}
	}
}
