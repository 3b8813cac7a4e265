package gitwire

import (
	"strings"
	"sync"

	"fairlead.dev/services/gitcache/internal/upstream"
)

// maxStderrBytes of what a host says; the words are shown in part.
const maxStderrBytes = 4 << 10

// Said keeps the beginning of what a host says.
type Said struct {
	mu   sync.Mutex // guards text
	text []byte
}

// Write keeps what there is room for.
func (s *Said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = append(s.text, p[:min(len(p), maxStderrBytes-len(s.text))]...)
	return len(p), nil
}

// Lines are the lines that say something, without the frames that some hosts draw around them.
func (s *Said) Lines() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var words []string
	for line := range strings.Lines(string(s.text)) {
		line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "remote:"))
		line = strings.TrimPrefix(line, "ERROR: ")
		line = strings.TrimPrefix(line, "fatal: ")
		if strings.ContainsFunc(line, func(c rune) bool { return c != '=' && c != '-' && c != '*' && c != '#' }) {
			words = append(words, line)
		}
	}
	return upstream.CleanLine(strings.Join(words, " "))
}
