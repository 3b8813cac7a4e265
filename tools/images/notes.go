package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// notes are the section of CHANGELOG.md about the version. A version that is only tried has those of what is not released.
func (r release) notes() (string, error) {
	text, err := os.ReadFile(filepath.Join(r.root, "CHANGELOG.md"))
	if err != nil {
		return "", fmt.Errorf("write notes: %w", err)
	}
	wanted := strings.TrimPrefix(r.version, "v")
	if strings.HasPrefix(r.version, "v0.0.0-try-") {
		wanted = "Unreleased"
	}
	section := changelogSection(string(text), wanted)
	if section == "" {
		return "", fmt.Errorf("CHANGELOG.md has no section \"## %s\" with a text: rename \"## Unreleased\" to it, and commit that before the tag", wanted)
	}
	return "# Fairlead " + r.version + "\n\n" + section + "\n", nil
}

// changelogSection returns what is below "## [1.2.3] - 2026-11-22", with or without brackets, v and date.
func changelogSection(text, wanted string) string {
	var lines []string
	inside := false
	for line := range strings.Lines(text) {
		if title, ok := strings.CutPrefix(line, "## "); ok {
			if inside {
				break
			}
			name, _, _ := strings.Cut(strings.TrimSpace(title), " ")
			inside = strings.TrimPrefix(strings.Trim(name, "[]"), "v") == wanted
			continue
		}
		if inside {
			lines = append(lines, line)
		}
	}
	return strings.TrimSpace(strings.Join(lines, ""))
}
