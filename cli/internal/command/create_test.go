package command

import (
	"io"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/clitest"
)

func TestCreateSaysHowFilesAndKindsAreWritten(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"create -f a.yaml b.yaml":       "each file needs its own -f: fairlead create -f a.yaml -f b.yaml",
		"create -f a.yaml b.yaml c.yml": "each file needs its own -f: fairlead create -f a.yaml -f b.yaml -f c.yml",
		"create b.yaml":                 `unknown kind "b.yaml": known are `,
		"create sinks alerts":           "a sink is made from a file: fairlead create -f FILE; from flags are made: ",
		"create Services web":           "write the kind in lower case: fairlead create service NAME",
		"create sources":                "use it as `fairlead create source NAME --url URL`",
		"create clusters":               "use it as `fairlead create cluster NAME`",
		"create services":               "use it as `fairlead create service NAME --source SOURCE --cluster CLUSTER`",
		"create projects":               "use it as `fairlead create project NAME`",
		"create secrets":                "use it as `fairlead create secret NAME`",
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			env := map[string]string{"FAIRLEAD_CONFIG": filepath.Join(t.TempDir(), "config.yaml")}
			err := Run(t.Context(), strings.Fields(line), app.IO{
				Getenv: func(name string) string { return env[name] }, Stdin: strings.NewReader(""),
				Stdout: io.Discard, Stderr: io.Discard, Now: clitest.Noon,
			})
			if err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("got %v\nwant %s", err, want)
			}
		})
	}
}
