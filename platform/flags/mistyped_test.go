package flags_test

import (
	"flag"
	"slices"
	"testing"

	"fairlead.dev/platform/flags"
)

func TestAMistypedVariableIsFound(t *testing.T) {
	t.Parallel()
	fs := flag.NewFlagSet("tunnel", flag.ContinueOnError)
	fs.String("console-url", "", "")
	fs.String("redis-url", "", "")
	for variable, want := range map[string]string{
		"FAIRLEAD_CONSOL_URL=http://x":     "FAIRLEAD_CONSOLE_URL",
		"FAIRLEAD_REDIS_ULR=redis://x":     "FAIRLEAD_REDIS_URL",
		"FAIRLEAD_REDIS_URL_FILES=/x":      "FAIRLEAD_REDIS_URL_FILE",
		"FAIRLEAD_REDIS_URL=redis://x":     "",
		"FAIRLEAD_REDIS_URL_FILE=/x":       "",
		"FAIRLEAD_CONSOLE_PORT=tcp://x:1":  "",
		"FAIRLEAD_REDIS_SERVICE_HOST=x":    "",
		"FAIRLEAD_REDIS_SERVICE_PORT_R=1":  "",
		"FAIRLEAD_REDIS_PORT_1_TCP_ADDR=x": "",
		"FAIRLEAD_DATABASE_URL=postgres:x": "",
		"REDIS_URL=redis://x":              "",
	} {
		got := flags.Mistyped([]string{"PATH=/bin", variable}, flags.Variables(fs))
		var all []string
		if want != "" {
			name := variable[:slices.Index([]byte(variable), '=')]
			all = []string{"environment variable " + name + " has no meaning: rename it, if " + want + " is meant"}
		}
		if !slices.Equal(got, all) {
			t.Errorf("%s: got %q", variable, got)
		}
	}
	both := []string{"FAIRLEAD_REDIS_URL=redis://x", "FAIRLEAD_REDIS_URL2=redis://y"}
	if got := flags.Mistyped(both, flags.Variables(fs)); got != nil {
		t.Errorf("beside the right one: %q", got)
	}
}
