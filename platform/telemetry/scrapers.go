package telemetry

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

const (
	// minTokenBytes is the shortest metrics token that can't be guessed.
	minTokenBytes = 16
	maxTokenBytes = 4 << 10
)

// Scrapers lets those in who have the token of a file, which opens metrics and nothing else. The zero value lets nobody
// in.
type Scrapers struct{ file string }

// NewScrapers checks the file; with "" there is no token.
func NewScrapers(file string) (Scrapers, error) {
	s := Scrapers{file: file}
	if file == "" {
		return s, nil
	}
	_, err := s.token()
	return s, err
}

// Any reports whether there is a token at all.
func (s Scrapers) Any() bool { return s.file != "" }

// Admits says whether a request has the token. The file is read each time: it may be replaced.
func (s Scrapers) Admits(r *http.Request) bool {
	given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || s.file == "" {
		return false
	}
	token, err := s.token()
	return err == nil && subtle.ConstantTimeCompare([]byte(given), []byte(token)) == 1
}

func (s Scrapers) token() (string, error) {
	file, err := os.Open(s.file)
	if err != nil {
		return "", fmt.Errorf("read metrics token: %w", err)
	}
	content, err := io.ReadAll(io.LimitReader(file, maxTokenBytes))
	if err := errors.Join(err, file.Close()); err != nil {
		return "", fmt.Errorf("read metrics token: %w", err)
	}
	token := strings.TrimSpace(string(content))
	if len(token) < minTokenBytes {
		return "", fmt.Errorf("metrics token %s: must have at least %d characters", s.file, minTokenBytes)
	}
	return token, nil
}
