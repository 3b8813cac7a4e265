package kubehttp

import (
	"fmt"
	"net/http"
	"strings"
)

// APIRoots are the paths below which an API server has its resources.
func APIRoots() []string { return []string{"/api", "/apis", "/openapi"} }

// IsAPI says whether a path is one of an API server's resources.
func IsAPI(path string) bool {
	for _, root := range APIRoots() {
		if path == root || strings.HasPrefix(path, root+"/") {
			return true
		}
	}
	return false
}

// NoCluster answers what was meant for some cluster's API server and came to the hub itself.
func NoCluster(w http.ResponseWriter, r *http.Request) {
	WriteError(w, &Error{Code: http.StatusNotFound, Message: fmt.Sprintf("the path %s names no cluster: the hub has the API of each cluster below /clusters/NAME/. "+
		"kubectl proxy needs --append-server-path for it, which `fairlead kubectl NAME -- proxy` gives", r.URL.Path)})
}
