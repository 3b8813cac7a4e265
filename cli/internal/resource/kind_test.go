package resource

import (
	"strings"
	"testing"
)

func TestAKindWithATypoIsNamed(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"servces": "; did you mean services?",
		"cluser":  "; did you mean clusters?",
		"app":     "; an Application of Argo CD is a service: `fairlead get services`",
		"ships":   ", sessions, logins",
	} {
		if _, err := FindKind(name); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("kind %s: %v, want an end %q", name, err, want)
		}
	}
}
