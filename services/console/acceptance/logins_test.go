package acceptance

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"fairlead.dev/platform/identity"
)

const loginService = "/fairlead.console.v1.LoginService/"

// login is one of a list of logins, as JSON has it.
type login struct {
	ID             string
	Client         string
	Action         string
	Program        string
	BeginTime      time.Time
	BeginAddress   string
	LastUseTime    time.Time
	LastUseAddress string
	ExpireTime     time.Time
	Own            bool
}

// logins asks for the caller's logins: by the cookie, unless headers say otherwise.
func (b *browser) logins(t *testing.T, body string, headers ...string) (list []login, next string) {
	t.Helper()
	_, text := b.want(t, http.StatusOK, "POST", loginService+"ListLogins", body,
		append(headers, identity.CSRFHeader, "1")...)
	var got struct {
		Logins        []login
		NextPageToken string
	}
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return got.Logins, got.NextPageToken
}

// byLink begins a session by a login link, in a browser that says what it is.
func (b *browser) byLink(t *testing.T, admin, user, program string) {
	t.Helper()
	_, text := b.want(t, http.StatusOK, "POST", loginService+"CreateLoginLink", `{"user": "`+user+`"}`,
		"Authorization", admin)
	var made struct{ Link string }
	if err := json.Unmarshal([]byte(text), &made); err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(made.Link, "#")
	b.want(t, http.StatusOK, "POST", "/v1/login/once", `{"code": "`+code+`"}`, "User-Agent", program)
}

// A person sees from where logins are used, which one is the own, and ends one, or all others.
func TestPersonSeesAndEndsLogins(t *testing.T) {
	t.Parallel()
	b := browse(t)
	token := "Bearer " + b.exchange(t)
	b.want(t, http.StatusOK, "POST", "/v1/session", "", "Authorization", token, "User-Agent", "an old browser")
	old := identity.SessionCookie + "=" + b.cookie(t)
	b.byLink(t, token, "ada", "a new browser")
	own := identity.SessionCookie + "=" + b.cookie(t)

	list, _ := b.logins(t, "{}")
	if len(list) != 3 {
		t.Fatalf("got %+v", list)
	}
	for i, want := range []login{
		{Client: "LOGIN_CLIENT_BROWSER", Action: "login.link", Program: "a new browser", Own: true},
		{Client: "LOGIN_CLIENT_BROWSER", Action: "session.begin", Program: "an old browser"},
		{Client: "LOGIN_CLIENT_COMMAND", Action: "login.hub-secret", Program: "Go-http-client/1.1"},
	} {
		got := list[i]
		if got.Client != want.Client || got.Action != want.Action || got.Program != want.Program ||
			got.Own != want.Own {
			t.Errorf("login %d: got %+v, want %+v", i, got, want)
		}
		if got.BeginAddress != "127.0.0.1" || got.BeginTime.IsZero() || !got.ExpireTime.After(time.Now()) ||
			got.LastUseTime.IsZero() {
			t.Errorf("login %d: got %+v", i, got)
		}
	}
	if used := list[2]; used.LastUseAddress != "127.0.0.1" ||
		used.LastUseTime.Before(used.BeginTime.Add(-time.Second)) {
		t.Errorf("the use of a login is not noted: %+v", used)
	}
	first, next := b.logins(t, `{"pageSize": 2}`)
	rest, end := b.logins(t, `{"pageSize": 2, "pageToken": "`+next+`"}`)
	if len(first) != 2 || len(rest) != 1 || rest[0].ID != list[2].ID || end != "" {
		t.Errorf("pages: %+v, then %+v, then %q", first, rest, end)
	}
	b.want(t, http.StatusBadRequest, "POST", loginService+"ListLogins", `{"pageToken": "eA"}`, identity.CSRFHeader, "1")

	// Others have no business with them, and a page of another site ends none.
	end1 := `{"id": "` + list[1].ID + `"}`
	b.byLink(t, token, "bob", "bob's")
	if bobs, _ := b.logins(t, "{}"); len(bobs) != 1 || bobs[0].Program != "bob's" {
		t.Errorf("bob sees %+v", bobs)
	}
	if _, text := b.want(t, http.StatusNotFound, "POST", loginService+"EndLogin", end1, identity.CSRFHeader,
		"1"); !strings.Contains(text, "fairlead get logins") {
		t.Error(text)
	}
	b.want(t, http.StatusForbidden, "POST", loginService+"EndLogin", end1)

	b.client.Jar = nil // from here on each request says as whom
	for range 2 {      // what has ended can be ended again
		b.want(t, http.StatusOK, "POST", loginService+"EndLogin", end1, "Authorization", token)
	}
	b.want(t, http.StatusUnauthorized, "GET", "/v1/session", "", "Cookie", old)
	if left, _ := b.logins(t, "{}", "Authorization", token); len(left) != 2 || left[0].ID != list[0].ID ||
		!left[1].Own {
		t.Errorf("left are %+v", left)
	}
	b.endOthers(t, token, own)
}

// endOthers ends all logins but that of a cookie, and expects the token to be of one of them.
func (b *browser) endOthers(t *testing.T, token, own string) {
	t.Helper()
	_, text := b.want(t, http.StatusOK, "POST", "/fairlead.console.v1.TokenService/CreateToken",
		`{"description": "ci"}`, "Authorization", token)
	var made struct{ Token string }
	if err := json.Unmarshal([]byte(text), &made); err != nil {
		t.Fatal(err)
	}
	for _, method := range []string{"ListLogins", "EndOtherLogins"} {
		b.want(t, http.StatusForbidden, "POST", loginService+method, "{}", "Authorization", "Bearer "+made.Token)
	}
	for _, want := range []string{`{"ended":1}`, `{}`} {
		_, text := b.want(t, http.StatusOK, "POST", loginService+"EndOtherLogins", "{}", "Cookie", own,
			identity.CSRFHeader, "1")
		if strings.ReplaceAll(text, " ", "") != want {
			t.Errorf("ended %s, want %s", text, want)
		}
	}
	b.want(t, http.StatusUnauthorized, "GET", "/v1/session", "", "Authorization", token)
	b.want(t, http.StatusOK, "GET", "/v1/session", "", "Cookie", own)
	b.want(t, http.StatusOK, "POST", getSources, "{}", "Authorization", "Bearer "+made.Token)
}

// A login that a session was begun with stays when that session ends all others: it would end with it.
func TestASessionSparesTheLoginThatItWasBegunWith(t *testing.T) {
	t.Parallel()
	b := browse(t)
	token := "Bearer " + b.exchange(t)
	b.want(t, http.StatusOK, "POST", "/v1/session", "", "Authorization", token)
	if _, text := b.want(t, http.StatusOK, "POST", loginService+"EndOtherLogins", "{}", identity.CSRFHeader,
		"1"); strings.TrimSpace(text) != "{}" {
		t.Error(text)
	}
	b.want(t, http.StatusOK, "GET", "/v1/session", "")
	b.want(t, http.StatusOK, "GET", "/v1/session", "", "Authorization", token)
}
