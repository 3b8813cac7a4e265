package kubehttp

import (
	"net/http"
	"net/url"
	"strings"
)

// Info is what a request is about, for the audit trail. Info says what the path seems to mean; the API server decides.
type Info struct {
	Verb        string // get, list, watch, create, update, patch, delete, deletecollection; outside of resources the method
	Group       string
	Version     string
	Namespace   string
	Resource    string // empty: not a resource, see the path
	Subresource string
	Name        string
}

// InfoOf reads a request's method, path (unescaped, without the cluster's prefix) and query.
func InfoOf(method, path string, query url.Values) Info {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	var i Info
	switch {
	case len(parts) >= 3 && parts[0] == "api":
		i.Version, parts = parts[1], parts[2:]
	case len(parts) >= 4 && parts[0] == "apis":
		i.Group, i.Version, parts = parts[1], parts[2], parts[3:]
	default:
		i.Verb = strings.ToLower(method)
		return i
	}
	watch, old := IsSet(query, "watch"), false
	if parts[0] == "watch" && len(parts) > 1 { // the old spelling
		old, parts = true, parts[1:]
	}
	if parts[0] == "namespaces" && len(parts) >= 2 {
		i.Namespace = parts[1]
		if len(parts) >= 3 && parts[2] != "status" && parts[2] != "finalize" {
			parts = parts[2:]
		}
	}
	i.Resource = parts[0]
	if len(parts) > 1 {
		i.Name = parts[1]
	}
	if len(parts) > 2 {
		i.Subresource = parts[2]
	}
	i.Verb = verb(method, i.Name != "", old || watch && i.Name == "")
	return i
}

// IsSet reads a parameter as the API server does, which takes for yes whatever is neither "false" nor "0".
func IsSet(query url.Values, name string) bool {
	return query.Has(name) && query.Get(name) != "0" && !strings.EqualFold(query.Get(name), "false")
}

func verb(method string, named, watch bool) string {
	switch method {
	case http.MethodGet, http.MethodHead:
		switch {
		case watch:
			return "watch"
		case named:
			return "get"
		default:
			return "list"
		}
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		if named {
			return "delete"
		}
		return "deletecollection"
	default:
		return strings.ToLower(method)
	}
}
