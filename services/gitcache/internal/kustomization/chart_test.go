package kustomization

import (
	"slices"
	"strings"
	"testing"
)

func TestWhichFoldersAChartTakesDependenciesFrom(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]Dependency{
		"": nil, "{": nil, "dependencies: file://../x": nil, "dependencies: [a, {name: b}, {repository: []}]": nil,
		"dependencies:\n- {name: db, version: 1.x, repository: 'file://../db/'}\n- {name: etc, repository: 'file:///etc'}\n- {name: far, repository: 'https://charts.example.com'}\n- {name: here, repository: file://}\n- {name: plain, repository: ../plain}\n": {{"db", "../db"}},
		"x: &a {name: a, repository: file://a}\ndependencies: [*a, {<<: *a, name: b}]\n": {{"a", "a"}, {"b", "a"}},
	} {
		if got := LocalDependencies([]byte(text)); !slices.Equal(got, want) {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
	if got := LocalDependencies([]byte("dependencies: [" + strings.Repeat("{repository: file://a},", 3*Max) + "]")); len(got) > Max {
		t.Errorf("%d are found", len(got))
	}
}
