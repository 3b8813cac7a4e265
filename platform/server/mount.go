package server

import (
	"fmt"
	"net/http"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"fairlead.dev/platform/identity"
)

// Mount is one thing that a listener serves; made by RPC, HTTP and Raw.
type Mount struct {
	pattern string
	handler http.Handler
	role    identity.Role
	raw     bool
	lingers bool
	traced  bool
	page    func(path string) string
	door    *Door // nil: bearer tokens of the hub

	service string
	build   func(opts ...connect.HandlerOption) (string, http.Handler)
}

// RPC mounts a Connect service, given by its full proto name and its generated constructor. New
// passes the options that hold the limits and interceptors of this house:
//
//	server.RPC(consolev1connect.SourceServiceName, func(o ...connect.HandlerOption) (string, http.Handler) {
//		return consolev1connect.NewSourceServiceHandler(h, o...)
//	})
//
// Who may call what is said in Deps.Policy; New refuses a procedure that is not in it.
func RPC(service string, build func(opts ...connect.HandlerOption) (string, http.Handler)) Mount {
	return Mount{service: service, build: build}
}

// HTTP mounts a plain handler at a pattern of net/http.ServeMux for callers with the given role.
// The handler finds the caller with identity.FromContext.
func HTTP(pattern string, h http.Handler, role identity.Role) Mount {
	return Mount{pattern: pattern, handler: h, role: role, traced: people(role)}
}

// Raw mounts a proxy at a path prefix that ends with a slash, for callers with the given role. The handler gets every
// method and the path exactly as it was sent, without the cleaning and redirects of ServeMux; bodies are not limited in
// size or time; requests linger (see Mount.Lingering).
func Raw(prefix string, h http.Handler, role identity.Role) Mount {
	return Mount{pattern: prefix, handler: h, role: role, raw: true, lingers: true, traced: people(role)}
}

// Lingering returns the mount with streams that the server does not end when it begins to drain, but
// only at the end of the drain. The handler has to watch Draining and end by itself. Use it
// where other people's work hangs on a stream, as in a tunnel.
func (m Mount) Lingering() Mount {
	m.lingers = true
	return m
}

// Traced returns the mount with requests that begin traces, whoever makes them, as those of people always do. Use it
// where somebody logs in.
func (m Mount) Traced() Mount {
	m.traced = true
	return m
}

// Door is for clients that are not ours: how they show who they are, and how they are told no.
type Door struct {
	// Verifier takes the place of the listener's.
	Verifier identity.Verifier
	// Bearer returns the request with its credential as a bearer token.
	Bearer func(*http.Request) *http.Request
	Refuse identity.RefuseFunc
}

// Through returns an HTTP mount whose callers are let in by a door of its own.
func (m Mount) Through(d Door) Mount {
	m.door = &d
	return m
}

// guard lets callers of the mount's role pass, each with a bounded number of connections.
func (m Mount) guard(v identity.Verifier) http.Handler {
	met := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, _ := identity.FromContext(r.Context())
		if !meetCaller(r.Context(), id) {
			endConnection(w)
			http.Error(w, tooManyConnections, http.StatusTooManyRequests)
			return
		}
		m.handler.ServeHTTP(w, r)
	})
	if m.door == nil {
		return identity.Middleware(v, m.role, met)
	}
	guarded := identity.Guard(m.door.Verifier, m.role, met, m.door.Refuse)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { guarded.ServeHTTP(w, m.door.Bearer(r)) })
}

// Paged returns the mount with a page for people: a browser that navigates to an address of the mount is led to the
// path that page makes of the escaped path, before anybody is verified. Use it where a mount answers programs and
// scripts only.
func (m Mount) Paged(page func(path string) string) Mount {
	m.page = page
	return m
}

// leading leads browsers that navigate to the page, and passes all other requests on.
func leading(page func(path string) string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document" {
			http.Redirect(w, r, page(r.URL.EscapedPath()), http.StatusSeeOther)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Procedure is one method of a mounted Connect service.
type Procedure struct {
	Name            string // As in the URL: "/fairlead.console.v1.SourceService/GetSource".
	Role            identity.Role
	ClientStreaming bool
	ServerStreaming bool
}

func (p Procedure) unary() bool { return !p.ClientStreaming && !p.ServerStreaming }

// proceduresOf finds the methods of a service in its generated descriptor.
func proceduresOf(service string, policy identity.Policy) ([]Procedure, error) {
	descriptor, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service))
	if err != nil {
		return nil, fmt.Errorf("service %q has no generated code in this program: %w", service, err)
	}
	sd, ok := descriptor.(protoreflect.ServiceDescriptor)
	if !ok {
		return nil, fmt.Errorf("%q is not a service", service)
	}
	var procedures []Procedure
	for i := range sd.Methods().Len() {
		method := sd.Methods().Get(i)
		p := Procedure{
			Name:            "/" + service + "/" + string(method.Name()),
			ClientStreaming: method.IsStreamingClient(),
			ServerStreaming: method.IsStreamingServer(),
		}
		role, ok := policy[p.Name]
		if !ok {
			return nil, fmt.Errorf("procedure %s has no entry in the policy: say who may call it", p.Name)
		}
		p.Role = role
		procedures = append(procedures, p)
	}
	return procedures, nil
}
