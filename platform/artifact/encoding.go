package artifact

import (
	"strconv"
	"strings"
)

// encoding is a content coding that artifacts travel in.
type encoding string

const (
	encodingZstd     encoding = "zstd"
	encodingGzip     encoding = "gzip"
	encodingIdentity encoding = "identity"
)

// pickEncoding picks the best coding that an Accept-Encoding header allows; what is stored comes first.
// Without a header, or with nothing that we have, it is identity, which everybody reads.
func pickEncoding(accept string) encoding {
	best, bestQ := encodingIdentity, 0.0
	for _, enc := range []encoding{encodingZstd, encodingGzip} {
		if q := encodingWeight(accept, enc); q > bestQ {
			best, bestQ = enc, q
		}
	}
	if namesIdentity(accept) && encodingWeight(accept, encodingIdentity) > bestQ {
		return encodingIdentity
	}
	return best
}

func namesIdentity(accept string) bool {
	return strings.Contains(strings.ToLower(accept), string(encodingIdentity))
}

// encodingWeight is the weight of a coding in an Accept-Encoding header, 0 when it is not acceptable.
func encodingWeight(accept string, enc encoding) float64 {
	wildcard := 0.0
	for part := range strings.SplitSeq(accept, ",") {
		name, params, _ := strings.Cut(part, ";")
		q := 1.0
		if k, v, ok := strings.Cut(strings.TrimSpace(params), "="); ok && strings.EqualFold(strings.TrimSpace(k), "q") {
			f, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
			if err != nil || f < 0 || f > 1 {
				f = 0
			}
			q = f
		}
		switch name = strings.TrimSpace(name); {
		case strings.EqualFold(name, string(enc)):
			return q
		case name == "*":
			wildcard = q
		}
	}
	return wildcard
}
