package telemetry_test

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/platform/telemetry"
)

func TestMetricsTokenIsReadAnew(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "metrics.token")
	write := func(content string) {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	first, second := strings.Repeat("a", 16), strings.Repeat("b", 40)
	write(first + "\n")
	s, err := telemetry.NewScrapers(file)
	if err != nil {
		t.Fatal(err)
	}
	admits := func(header string) bool {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil)
		r.Header.Set("Authorization", header)
		return s.Admits(r)
	}
	if !admits("Bearer "+first) || admits("Bearer "+second) || admits(first) || admits("") || admits("Bearer ") ||
		admits("Bearer "+first+"a") {
		t.Error("the first token")
	}
	write(second)
	if admits("Bearer "+first) || !admits("Bearer "+second) {
		t.Error("the second token")
	}
	write("")
	if admits("Bearer ") || admits("Bearer "+second) {
		t.Error("an empty file")
	}
}

func TestMetricsTokenMustNotBeGuessable(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "metrics.token")
	if _, err := telemetry.NewScrapers(file); err == nil {
		t.Error("no file")
	}
	if err := os.WriteFile(file, []byte("  fifteen letters\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := telemetry.NewScrapers(file); err == nil || !strings.Contains(err.Error(), "at least 16") {
		t.Errorf("a short one: %v", err)
	}
	if s, err := telemetry.NewScrapers(""); err != nil || s.Any() ||
		s.Admits(httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil)) {
		t.Errorf("none: %v", err)
	}
}
