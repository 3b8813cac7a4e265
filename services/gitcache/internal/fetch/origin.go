package fetch

import "net/url"

// SameOrigin tells whether two URLs are the same scheme, host and port: only then the credentials for
// one may be sent to the other.
func SameOrigin(a, b *url.URL) bool { return originOf(a) == originOf(b) }
