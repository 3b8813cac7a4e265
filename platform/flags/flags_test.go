package flags_test

import (
	"bytes"
	"errors"
	"flag"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairlead.dev/platform/flags"
)

type config struct {
	url   string
	every time.Duration
	plain bool
}

func newSet(out *bytes.Buffer) (*flag.FlagSet, *config) {
	c := &config{}
	fs := flag.NewFlagSet("gitcache", flag.ContinueOnError)
	fs.SetOutput(out)
	fs.StringVar(&c.url, "hub-url", "https://default", "URL of the console")
	fs.DurationVar(&c.every, "every", time.Second, "interval")
	fs.BoolVar(&c.plain, "plaintext", false, "no TLS")
	return fs, c
}

func env(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func TestCommandLineWinsOverEnvironmentWinsOverDefault(t *testing.T) {
	t.Parallel()
	fs, c := newSet(&bytes.Buffer{})
	err := flags.Parse(fs, []string{"--every=3s"},
		env("FAIRLEAD_HUB_URL", "https://env", "FAIRLEAD_EVERY", "9s", "FAIRLEAD_NO_SUCH_FLAG", "x",
			"FAIRLEAD_VERSION", "true"))
	if err != nil {
		t.Fatal(err)
	}
	if *c != (config{url: "https://env", every: 3 * time.Second}) {
		t.Errorf("got %+v", *c)
	}
}

func TestValuesMayLieInFiles(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "url")
	if err := os.WriteFile(file, []byte("https://:s3cret@file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	fs, c := newSet(&bytes.Buffer{})
	if err := flags.Parse(fs, nil, env("FAIRLEAD_HUB_URL_FILE", file)); err != nil || c.url != "https://:s3cret@file" {
		t.Errorf("got %q, %v", c.url, err)
	}
	fs, c = newSet(&bytes.Buffer{})
	if err := flags.Parse(fs, []string{"--hub-url=https://flag"}, env("FAIRLEAD_HUB_URL_FILE", file)); err != nil ||
		c.url != "https://flag" {
		t.Errorf("besides the flag: got %q, %v", c.url, err)
	}
	fs, c = newSet(&bytes.Buffer{})
	ca := fs.String("hub-url-file", "", "a flag of that name")
	if err := flags.Parse(fs, nil, env("FAIRLEAD_HUB_URL_FILE", file)); err != nil || c.url != "https://default" ||
		*ca != file {
		t.Errorf("a flag that has the variable's name: got %q and %q, %v", c.url, *ca, err)
	}
}

func TestMistakesAreNamed(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args []string
		env  []string
		want []string
	}{
		"unknown flag":    {args: []string{"--hub-ulr=x"}, want: []string{"-hub-ulr", "gitcache --help"}},
		"bad value":       {args: []string{"--every=soon"}, want: []string{"soon", "-every"}},
		"argument":        {args: []string{"serve"}, want: []string{`"serve"`}},
		"bad environment": {env: []string{"FAIRLEAD_EVERY", "s3cret"}, want: []string{"FAIRLEAD_EVERY", "--every"}},
		"no file": {
			env: []string{"FAIRLEAD_EVERY_FILE", "/nowhere"}, want: []string{"FAIRLEAD_EVERY_FILE", "/nowhere"},
		},
		"empty file": {
			env: []string{"FAIRLEAD_EVERY_FILE", os.DevNull}, want: []string{"FAIRLEAD_EVERY_FILE", "empty"},
		},
		"both": {
			env:  []string{"FAIRLEAD_EVERY_FILE", os.DevNull, "FAIRLEAD_EVERY", "9s"},
			want: []string{"FAIRLEAD_EVERY_FILE", "both"},
		},
		"two bad variables": {
			env:  []string{"FAIRLEAD_EVERY", "x", "FAIRLEAD_PLAINTEXT", "x"},
			want: []string{"FAIRLEAD_EVERY", "FAIRLEAD_PLAINTEXT"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			fs, _ := newSet(&out)
			err := flags.Parse(fs, tc.args, env(tc.env...))
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not name %q", err, want)
				}
			}
			if strings.Contains(err.Error(), "s3cret") {
				t.Errorf("error %q repeats the value of a variable", err)
			}
			if out.Len() > 0 {
				t.Errorf("printed besides the error: %q", out.String())
			}
		})
	}
}

// The value may be a secret: the error says what is valid instead.
func TestABadVariableNamesWhatIsValid(t *testing.T) {
	t.Parallel()
	fs := flag.NewFlagSet("x", flag.ContinueOnError)
	fs.Duration("delay", 0, "")
	fs.Int64("bytes", 0, "")
	fs.Bool("plain", false, "")
	fs.TextVar(new(slog.Level), "level", slog.LevelInfo, "")
	err := flags.Parse(fs, nil, env("FAIRLEAD_DELAY", "s3cret", "FAIRLEAD_BYTES", "s3cret", "FAIRLEAD_PLAIN", "s3cret", "FAIRLEAD_LEVEL", "s3cret"))
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"--delay: write a number and its unit, such as 5s", "--bytes: write a whole number", "--plain: write true or false",
		"--level: write debug, info, warn or error",
	} {
		if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("error %q does not say %q", err, want)
		}
	}
}

func TestHelpAndVersionArePrintedAndDone(t *testing.T) {
	t.Parallel()
	for arg, want := range map[string]string{
		"--help": "FAIRLEAD_DATA_DIR", "-h": "-hub-url", "--version": "gitcache ",
	} {
		var out bytes.Buffer
		fs, _ := newSet(&out)
		if err := flags.Parse(fs, []string{arg}, env()); !errors.Is(err, flags.ErrDone) {
			t.Errorf("%s: got error %v", arg, err)
		}
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s: output %q has no %q", arg, out.String(), want)
		}
	}
}
