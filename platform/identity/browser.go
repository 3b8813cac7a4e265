package identity

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
)

// SessionCookie is the cookie with the token of a session. By the prefix browsers take it over TLS only, for all
// paths, and from this very host: no neighbour under the same domain can set or read it.
const SessionCookie = "__Host-fairlead"

// CSRFHeader is what a page sends, with any value, with a request that changes something. See Browser.
const CSRFHeader = "Fairlead-Csrf"

// maxCookieBytes is what all browsers keep of a cookie, with room for its name and attributes.
const maxCookieBytes = 3800

// Cookie is what gives a browser the session's token; false: it has so many groups that browsers would drop it.
func Cookie(token string, expires time.Time) (*http.Cookie, bool) {
	return &http.Cookie{
		Name: SessionCookie, Value: token, Path: "/", MaxAge: max(1, int(time.Until(expires).Seconds())),
		Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode,
	}, len(token) <= maxCookieBytes
}

// NoCookie is what takes the session's token from a browser.
func NoCookie() *http.Cookie {
	return &http.Cookie{Name: SessionCookie, Path: "/", MaxAge: -1, Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode}
}

// Browser says when a session's cookie counts as its token. A browser sends cookies along with whatever any page makes
// it ask for, so the request has to come from a page of the hub:
//
//   - its Origin is the hub's own or an allowed one, or else it has none and Sec-Fetch-Site says same-origin. Pages
//     can forge neither. SameSite=Strict is not enough: it lets pages of neighbours under the same domain
//     through, and of other ports;
//   - with a method other than GET and HEAD it has CSRFHeader, or Connect's or gRPC-web's own header. A form can
//     send none of them, and a script of another origin only after a preflight, which the hub answers for
//     allowed origins only. So no value is needed that only the session's pages know;
//   - an upgrade needs an Origin: browsers open WebSockets anywhere, without a preflight, but they always say from where;
//   - Sec-Fetch-Dest, where the browser sends it, says that a script asked. So nothing that is answered by a cookie runs as a page, a
//     script, a frame or a service worker.
type Browser struct {
	// Secure says that browsers reach the listener over TLS. Otherwise no cookie counts.
	Secure bool
	// Origins are allowed besides the hub's own; exactly these.
	Origins []string
}

// Handler goes around all of a server's handlers. The handler behind it sees an Authorization header and never a
// cookie. A request that has both counts by its Authorization only. Where a cookie doesn't count the request is
// nobody's.
func (b Browser) Handler(next http.Handler) http.Handler { return &browsed{b, next} }

type browsed struct {
	by   Browser
	next http.Handler
}

func (b *browsed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if len(r.Header["Cookie"]) > 0 {
		r = b.by.withoutCookie(r)
	}
	b.next.ServeHTTP(w, r)
}

func (b Browser) withoutCookie(r *http.Request) *http.Request {
	sessions := r.CookiesNamed(SessionCookie)
	ctx := r.Context()
	refused := ""
	used := len(sessions) > 0 && len(r.Header["Authorization"]) == 0
	if used {
		refused = b.refused(r, len(sessions))
		ctx = context.WithValue(ctx, browserKey{}, refused)
	}
	if login, err := r.Cookie(LoginCookie); err == nil {
		ctx = context.WithValue(ctx, loginKey{}, login.Value)
	}
	r, header := r.WithContext(ctx), r.Header.Clone()
	r.Header = header
	header.Del("Cookie")
	if used && refused == "" {
		header.Set("Authorization", "Bearer "+sessions[0].Value)
	}
	return r
}

// refused says why the cookie doesn't count; "": it does.
func (b Browser) refused(r *http.Request, sessions int) string {
	origins, upgrade := r.Header["Origin"], len(r.Header["Upgrade"]) > 0
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch {
	case !b.Secure:
		return "the session's cookie does not count without TLS: send the token as Authorization, or serve over TLS"
	case sessions > 1:
		return "the session's cookie came twice: log in again"
	case !b.fromHub(r):
		return "the session's cookie does not count: the request comes from a page of another site, or it is not known from which. If the page is yours, give its origin to --allowed-origins"
	case !forScript(r.Header["Sec-Fetch-Dest"]):
		return "the session's cookie does not count: the hub answers scripts of its pages, and the browser asks for something to show or to run"
	case upgrade && len(origins) == 0:
		return "the session's cookie does not count: an upgrade needs an Origin"
	case !reads && !isMarked(r.Header):
		return "the session's cookie does not count: a request that changes something needs the header " + CSRFHeader
	}
	return ""
}

// fromHub tells whether a page of the hub, or an allowed one, made the request.
func (b Browser) fromHub(r *http.Request) bool {
	origins, sites := r.Header["Origin"], r.Header["Sec-Fetch-Site"]
	if len(origins) > 1 || len(sites) > 1 || len(origins) == 1 && (origins[0] == "null" || strings.Contains(origins[0], "*")) {
		return false
	}
	if len(origins) == 1 && slices.Contains(b.Origins, origins[0]) {
		return true
	}
	if len(sites) == 1 { // the browser has compared schemes, hosts and ports, and a proxy's Host doesn't matter
		return sites[0] == "same-origin"
	}
	return len(origins) == 1 && origins[0] == "https://"+r.Host
}

// forScript tells whether a script gets the answer. Firefox calls the destination of a WebSocket empty, Chromium
// websocket.
func forScript(destinations []string) bool {
	return len(destinations) == 0 || len(destinations) == 1 && (destinations[0] == "empty" || destinations[0] == "websocket")
}

// isMarked finds the headers that other sites can't send unasked.
func isMarked(h http.Header) bool {
	return h.Get(CSRFHeader) != "" || h.Get("Connect-Protocol-Version") != "" || h.Get("X-Grpc-Web") != ""
}

type (
	browserKey struct{}
	loginKey   struct{}
)

// LoginCookie is the cookie that a login at an identity provider is remembered by while it goes on. The cookie is no
// credential: it counts only where somebody asks for FromLoginCookie.
const LoginCookie = "__Host-fairlead-login"

// FromLoginCookie is what came in LoginCookie; empty: nothing.
func FromLoginCookie(ctx context.Context) string {
	value, _ := ctx.Value(loginKey{}).(string)
	return value
}

// FromBrowser tells whether the request counts by its session's cookie.
func FromBrowser(ctx context.Context) bool {
	refused, ok := ctx.Value(browserKey{}).(string)
	return ok && refused == ""
}

// cookieRefusal is why the cookie of a request without Authorization doesn't count, or nil.
func cookieRefusal(ctx context.Context) *refusal {
	if refused, _ := ctx.Value(browserKey{}).(string); refused != "" {
		return &refusal{connect.CodePermissionDenied, refused}
	}
	return nil
}
