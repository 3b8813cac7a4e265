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
		`Log in once, within 10 minutes: https://hub:7400/v1/login/once#fairlead-login-` +
			strings.ToLower(strings.ReplaceAll(planted, "-", "")) + `abc`,
		`fairlead-join-` + strings.ReplaceAll(planted, "-", ""),
		`fairlead_abcdefghijklmnopqrstuvwxyz_` + strings.ReplaceAll(planted, "-", ""),
		`ghp_` + strings.ReplaceAll(planted, "-", ""),
		`glpat-` + planted,
		`hvs.` + planted,
		`AGE-SECRET-KEY-1QQPQQQQQQ` + strings.ToUpper(strings.ReplaceAll(planted, "-", "")),
		`opaque ` + strings.Repeat("abcXYZ09", 12) + planted + ` end`,
	} {
		got := string(m.Mask([]byte(text)))
		for _, part := range []string{
			planted, strings.ReplaceAll(planted, "-", ""), strings.ToLower(strings.ReplaceAll(planted, "-", "")),
			"with \\\" and more",
		} {
			if strings.Contains(got, part) {
				t.Errorf("%s\nbecomes\n%s", text, got)
			}
		}
		if !strings.Contains(got, Masked) {
			t.Errorf("%s\nbecomes\n%s\nwithout a mark", text, got)
		}
	}
}

func TestNothingOfASecretStays(t *testing.T) {
	t.Parallel()
	m := NewMasker()
	line := strings.Repeat("MIIEvQIB", 8)
	for _, tt := range []struct{ text, want string }{
		{`DB_PASSWORD:  123qwerty`, `DB_PASSWORD:  ***`},
		{`password=12345`, `password=***`},
		{`{"password":12345,"a":1}`, `{"password":***,"a":1}`},
		{`{"password":"[S3cret!x"}`, `{"password":"***"}`},
		{`{"password":"{hunter"}`, `{"password":"***"}`},
		{`password: "<abc`, `password: ***`},
		{`msg password="abc`, `msg password="***"`},
		{`password: {hunter two`, `password: ***`},
		{`password={hunter`, `password=***`},
		{`password: "a \" b"`, `password: "***"`},
		{`password: 'it''s'`, `password: '***'`},
		{"password: &anchor hunter two\nb: 1", "password: ***\nb: 1"},
		{"password: *hunter\nb: 1", "password: ***\nb: 1"},
		{"password: &anchor |\n  hunter\nb: 1", "password: ***\nb: 1"},
		{"password: \"hunter\n  two\"\nb: 1", "password: ***\nb: 1"},
		{"a:\n  password: 'hunter\n    two'\n  b: 1", "a:\n  password: ***\n  b: 1"},
		{`secret=hunter2hunter`, `secret=***`},
		{`{"secret":"hunter2hunter"}`, `{"secret":"***"}`},
		{`SECRET: hunter2hunter`, `SECRET: ***`},
		{`secret: Hunter2/hunter`, `secret: ***`},
		{`SLACK_WEBHOOK_SECRET_URL=https://hooks.slack.com/services/T/B/x`, `SLACK_WEBHOOK_SECRET_URL=***`},
		{`secretUrl: "https://hooks.slack.com/services/T/B/x"`, `secretUrl: "***"`},
		{
			`MASTER_KEY=a ENCRYPTION_KEY=b SIGNING_KEY=c SESSION_KEY=d pwd=e`,
			`MASTER_KEY=*** ENCRYPTION_KEY=*** SIGNING_KEY=*** SESSION_KEY=*** pwd=***`,
		},
		{`run --db-password hunter22 --listen :1`, `run --db-password *** --listen :1`},
		{
			"    Args:\n      --token\n      hunter22\n      --listen\n",
			"    Args:\n      --token\n      ***\n      --listen\n",
		},
		{"args:\n- --token\n- hunter22\n- --listen", "args:\n- --token\n- ***\n- --listen"},
		{`"args":["--token","hunter22","-v"]`, `"args":["--token","***","-v"]`},
		{`client_secret=abc&def`, `client_secret=***`},
		{`?client_secret=abc&def&token=x,y&a=1`, `?client_secret=***&token=***&a=1`},
		{`postgres://u:p@ss@h/db`, `postgres://***@h/db`},
		{`postgres://u:p@ss@h`, `postgres://***@h`},
		{`password=ab,cdefg b`, `password=*** b`},
		{"kept\n" + line + "\n" + line + "\nAbc=\n-----END PRIVATE KEY-----\nkept", "kept\n***\nkept"},
		{line + `\n` + line + `\nAbc=\n-----END RSA PRIVATE KEY-----\n"`, `***\n"`},
	} {
		if got := string(m.Mask([]byte(tt.text))); got != tt.want {
			t.Errorf("%s\nbecomes\n%s\nnot\n%s", tt.text, got, tt.want)
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
		`password: <set 2026-11-22>`,
		`entries: {password: {text: ***}}`,
		`{"secrets":[{"name":"x"}]}`,
		`secret: shop-git`,
		`PWD=/srv/shop`,
		`token_count=12 max_tokens: 4096 token_ttl_seconds=3.5`,
		`SECRET_URL=https://vault:8200`,
		"      --hub-secret-file\n      /run/hub.secret",
		"      --token\n    State:  Running",
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
		if len(value) >= leastValue && !strings.Contains(Masked, value) && strings.Contains(string(got), value) &&
			!strings.Contains(value, "*") {
			t.Errorf("%q is still in %q", value, got)
		}
	})
}
