// Package impersonate is in whose name the agent works at the API server. A service may name a Kubernetes service
// account: all that is done for it is done as that account then, so that the account's rights bound what the service
// can bring into the cluster. The agent keeps its own records, such as inventories, in its own name.
package impersonate

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"fairlead.dev/platform/mux/kubehttp"
)

type key struct{}

// Person is somebody who came through the tunnel, as the cluster knows them.
type Person struct {
	User   string
	UID    string
	Groups []string
	Extra  map[string][]string
}

type personKey struct{}

// AsPerson has requests made as a person, whatever As said before. Only one whom the tunnel's policy let through is to
// be given.
func AsPerson(ctx context.Context, p Person) context.Context {
	return context.WithValue(ctx, personKey{}, &p)
}

// As has requests made as a service account, written namespace/name; empty: as the agent itself.
func As(ctx context.Context, account string) context.Context {
	return context.WithValue(context.WithValue(ctx, personKey{}, (*Person)(nil)), key{}, account)
}

// Own has requests made as the agent itself.
func Own(ctx context.Context) context.Context { return As(ctx, "") }

// Valid tells whether a text is namespace/name.
func Valid(account string) bool {
	namespace, name, ok := strings.Cut(account, "/")
	return ok && namespace != "" && name != "" && !strings.Contains(name, "/")
}

// Account is whom requests are made as; empty: the agent itself.
func Account(ctx context.Context) string {
	account, _ := ctx.Value(key{}).(string)
	return account
}

// User is a service account as the API server names it.
func User(account string) string {
	return "system:serviceaccount:" + strings.Replace(account, "/", ":", 1)
}

// Transport sends requests as the account in their context. The API server adds the groups that every token of the
// account has, and so the agent needs the right to impersonate accounts, and none for groups.
func Transport(next http.RoundTripper) http.RoundTripper { return transport{next} }

type transport struct{ next http.RoundTripper }

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if person, _ := r.Context().Value(personKey{}).(*Person); person != nil {
		if person.User == "" {
			return nil, errors.New("nobody knows who asks")
		}
		r = r.Clone(r.Context())
		r.Header.Set("Impersonate-User", person.User)
		if person.UID != "" {
			r.Header.Set("Impersonate-Uid", person.UID)
		}
		for _, group := range person.Groups {
			r.Header.Add("Impersonate-Group", group)
		}
		for name, values := range person.Extra {
			for _, value := range values {
				r.Header.Add(kubehttp.ExtraField(name), value)
			}
		}
		return t.next.RoundTrip(r)
	}
	account := Account(r.Context())
	if account == "" {
		return t.next.RoundTrip(r)
	}
	if !Valid(account) {
		return nil, fmt.Errorf("%q is no Kubernetes service account: it must be namespace/name", account)
	}
	r = r.Clone(r.Context())
	r.Header.Set("Impersonate-User", User(account))
	return t.next.RoundTrip(r)
}

// CloseIdleConnections ends those of the transport below.
func (t transport) CloseIdleConnections() {
	if c, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
