package signature

import "bytes"

// The headers that hold signatures: over the object as SHA-1 and as SHA-256 repositories have it. Neither
// is part of what any of them signs.
const (
	headerSHA1   = "gpgsig "
	headerSHA256 = "gpgsig-sha256 "
)

// splitHeader takes the signatures out of an object's header. Continued lines of a header begin with a
// space; that space is not part of the signature.
func splitHeader(raw []byte) (payload []byte, signatures [][]byte) {
	payload = make([]byte, 0, len(raw))
	const none, ours, other = 0, 1, 2
	within := none
	for rest := raw; len(rest) > 0; {
		line, after := cutLine(rest)
		if line[0] == '\n' { // the end of the header: the message is signed as it is
			return append(payload, rest...), signatures
		}
		switch {
		case line[0] == ' ' && within == ours:
			last := &signatures[len(signatures)-1]
			*last = append(*last, line[1:]...)
		case line[0] == ' ' && within == other:
		case bytes.HasPrefix(line, []byte(headerSHA1)):
			within = ours
			signatures = append(signatures, bytes.Clone(line[len(headerSHA1):]))
		case bytes.HasPrefix(line, []byte(headerSHA256)):
			within = other
		default:
			within = none
			payload = append(payload, line...)
		}
		rest = after
	}
	return payload, signatures
}

// splitTail cuts a tag where its signature begins: at the last line that begins one.
func splitTail(raw []byte) (payload, signature []byte) {
	at := -1
	for pos := 0; pos < len(raw); {
		line, _ := cutLine(raw[pos:])
		if formatOf(line) != formatUnknown {
			at = pos
		}
		pos += len(line)
	}
	if at < 0 {
		return raw, nil
	}
	return raw[:at], raw[at:]
}

// cutLine cuts after the first line, which keeps its end.
func cutLine(b []byte) (line, rest []byte) {
	if i := bytes.IndexByte(b, '\n'); i >= 0 {
		return b[:i+1], b[i+1:]
	}
	return b, nil
}

type format int

const (
	formatUnknown format = iota
	formatOpenPGP
	formatSSH
	formatX509
)

// formatOf tells the kind of a signature by its first line.
func formatOf(signature []byte) format {
	begins := func(text string) bool { return bytes.HasPrefix(signature, []byte(text)) }
	switch {
	case begins("-----BEGIN PGP SIGNATURE-----"), begins("-----BEGIN PGP MESSAGE-----"):
		return formatOpenPGP
	case begins(sshBegin):
		return formatSSH
	case begins("-----BEGIN SIGNED MESSAGE-----"):
		return formatX509
	}
	return formatUnknown
}

// tagName is the name within an annotated tag.
func tagName(raw []byte) string {
	for rest := raw; len(rest) > 0; {
		line, after := cutLine(rest)
		if line[0] == '\n' {
			break
		}
		if name, ok := bytes.CutPrefix(line, []byte("tag ")); ok {
			return string(bytes.TrimSuffix(name, []byte("\n")))
		}
		rest = after
	}
	return ""
}
