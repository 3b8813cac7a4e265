package bundle

import (
	"strings"
	"testing"
)

const planted = "Planted-5ecret-Value"

func TestSecretsAreMaskedWhateverTheyAreWrittenIn(t *testing.T) {
	t.Parallel()
	m := NewMasker("known-" + planted)
	jwt := "eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJ1c2VyIn0." + planted
	for _, text := range []string{
		`known-` + planted,
		`password: ` + planted,
		`password: "` + planted + ` with \" and more"`,
		`    dbPassword: '` + planted + `'`,
		`{"client_secret":"` + planted + `","a":1}`,
		`{"line":"{\"apiToken\":\"` + planted + `\"}"}`,
		`level=INFO msg=x token=` + planted + ` k=v`,
		`level=INFO msg="with password=` + planted + ` in it"`,
		`REDIS_PASSWORD=` + planted,
		`      POSTGRES_PASSWORD:  ` + planted,
		`password: correct horse ` + planted,
		"  - password: |\n      first line\n\n      " + planted + "\n    next: stays",
		"entries:\n  password:\n    text: " + planted + " of two words",
		`entries: {password: {text: ` + planted + `}}`,
		`"entries":{"sessionKey":{"text":"x"},"dbPassword":{"text":"` + planted + `"}}`,
		"env:\n  - name: REDIS_PASSWORD\n    value: " + planted,
		`{"name":"REDIS_PASSWORD","value":"` + planted + `"}`,
		`--api-key=` + planted + ` --listen=:1`,
		`https://hub/x?access_token=` + planted + `&y=1`,
		`Authorization: Basic ` + planted,
		`authorization=Bearer ` + planted,
		`"Bearer ` + planted + `"`,
		`Cookie: ` + planted,
		`redis://:` + planted + `@redis:6379/0`,
		`clone https://git:` + planted + `@git.example.com/shop.git: denied`,
		`https://` + planted + `@git.example.com/shop.git`,
		`postgres://fairlead:` + planted + `@postgres:5432/fairlead?sslmode=disable`,
		"-----BEGIN PRIVATE KEY-----\n" + planted + "\nAAA\n-----END PRIVATE KEY-----",
		`{"key":"-----BEGIN EC PRIVATE KEY-----\n` + planted + `\n-----END EC PRIVATE KEY-----\n"}`,
		"-----BEGIN OPENSSH PRIVATE KEY-----\n" + planted,
		jwt,
		`Log in once, within 10 minutes: https://hub:7400/v1/login/once#fairlead-login-` + strings.ToLower(strings.ReplaceAll(planted, "-", "")) + `abc`,
		`fairlead-join-` + strings.ReplaceAll(planted, "-", ""),
		`fairlead_abcdefghijklmnopqrstuvwxyz_` + strings.ReplaceAll(planted, "-", ""),
		`ghp_` + strings.ReplaceAll(planted, "-", ""),
		`glpat-` + planted,
		`hvs.` + planted,
		`AGE-SECRET-KEY-1QQPQQQQQQ` + strings.ToUpper(strings.ReplaceAll(planted, "-", "")),
		`opaque ` + strings.Repeat("abcXYZ09", 12) + planted + ` end`,
	} {
		got := string(m.Mask([]byte(text)))
		for _, part := range []string{planted, strings.ReplaceAll(planted, "-", ""), strings.ToLower(strings.ReplaceAll(planted, "-", "")), "with \\\" and more"} {
			if strings.Contains(got, part) {
				t.Errorf("%s\nbecomes\n%s", text, got)
			}
		}
		if !strings.Contains(got, Masked) {
			t.Errorf("%s\nbecomes\n%s\nwithout a mark", text, got)
		}
	}
}

func TestWhatSaysSomethingStays(t *testing.T) {
	t.Parallel()
	m := NewMasker("short")
	for _, text := range []string{
		`spec: {git: {url: https://git.example.com/shop.git, secret: shop-git}}`,
		`digest=sha256:` + strings.Repeat("0a1b2c3d", 8),
		`--hub-secret-file=/run/fairlead/hub/hub.secret`,
		`secretName: fairlead-tls`,
		`tokenExpireTime: "2026-11-22T03:00:00Z"`,
		`fairlead_token_requests_total{service="console"} 12`,
		`password: ""`,
		`{"automountServiceAccountToken":false}`,
		`{"secret":{"secretName":"x"}}`,
		`event cluster.token_reused of edge-1`,
		`2026-11-22T03:00:00Z level=INFO msg="listening" url=https://127.0.0.1:7400 app=console`,
		`pod fairlead-gitcache-0 in fairlead-system is short of memory`,
		`user@example.com pushed to https://git.example.com/a@b`,
	} {
		if got := string(m.Mask([]byte(text))); got != text {
			t.Errorf("%s\nbecomes\n%s", text, got)
		}
	}
}

func FuzzMask(f *testing.F) {
	f.Add(`password: "a`, "value-of-secret")
	f.Fuzz(func(t *testing.T, text, value string) {
		got := NewMasker(value).Mask([]byte(text + value + text))
		if len(value) >= leastValue && !strings.Contains(Masked, value) && strings.Contains(string(got), value) && !strings.Contains(value, "*") {
			t.Errorf("%q is still in %q", value, got)
		}
	})
}
