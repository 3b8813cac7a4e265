package kubehttp

import (
	"net/http"
	"net/url"
)

// passed are the fields of a cluster's response that reach whoever asked: those of an API server, and of what it
// proxies to, that are about the response itself. Browsers and proxies act on many others for the whole of the hub's
// address (Set-Cookie, Clear-Site-Data, Strict-Transport-Security, Alt-Svc, NEL, Report-To, Link, Refresh,
// WWW-Authenticate, X-Accel-Redirect, those of CORS), and more are invented: so a field that is not named here is left
// out.
var passed = map[string]bool{ //nolint:gochecknoglobals // a table
	"Accept-Patch": true, "Accept-Ranges": true, "Age": true, "Allow": true, "Cache-Control": true, "Content-Disposition": true, "Content-Encoding": true,
	"Content-Language": true, "Content-Length": true, "Content-Range": true, "Content-Security-Policy": true, "Content-Type": true, "Date": true,
	"Etag": true, "Expires": true, "Last-Modified": true, "Location": true, "Pragma": true, "Retry-After": true, "Server": true, "Vary": true, "Warning": true,
	"X-Content-Type-Options": true, "X-Frame-Options": true,
	// Of the connection, for an upgrade and for bodies.
	"Connection": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true, "Sec-Websocket-Accept": true, "Sec-Websocket-Extensions": true,
	"Sec-Websocket-Protocol": true, "Sec-Websocket-Version": true,
	// Of Kubernetes: exec and port-forward, audit, priority and fairness.
	"X-Stream-Protocol-Version": true, "X-Accepted-Stream-Protocol-Versions": true, "Audit-Id": true, "X-Kubernetes-Pf-Flowschema-Uid": true,
	"X-Kubernetes-Pf-Prioritylevel-Uid": true,
}

// StripResponse removes the fields of a cluster's response that are not passed on, and those that are not written in
// their usual way.
func StripResponse(h http.Header) {
	for k := range h {
		if !passed[k] {
			delete(h, k)
		}
	}
}

// Redirect says where a Location in the response of a cluster leads, as a path below that cluster's place in the hub.
// False: it leads out of the cluster, or nobody can tell. asked is the path that was asked for; both are with escapes.
func Redirect(location []string, asked string) (path string, ok bool) {
	if len(location) != 1 {
		return "", false
	}
	to, err := url.Parse(location[0])
	if err != nil || to.IsAbs() || to.Host != "" || to.User != nil || to.Opaque != "" {
		return "", false
	}
	base, err := url.Parse(asked)
	if err != nil || base.Host != "" {
		return "", false
	}
	to = base.ResolveReference(to) // dot segments end at the root
	path = to.EscapedPath()
	if len(path) > 1 && path[1] == '/' || CheckPath(path) != nil {
		return "", false
	}
	if to.RawQuery != "" || to.ForceQuery {
		path += "?" + to.RawQuery
	}
	return path, true
}
