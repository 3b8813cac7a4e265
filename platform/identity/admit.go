package identity

import "net/http"

// Admit tells whether a request with this header may pass, or else why not, as an error of Connect.
// It is for a server that decides before it reads the body; Interceptor and Middleware still have to
// follow.
func Admit(v Verifier, role Role, header http.Header) error {
	if _, refused := authenticate(v, role, header); refused != nil {
		return refused.connect()
	}
	return nil
}
