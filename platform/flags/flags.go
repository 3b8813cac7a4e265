// Package flags is the command line of every service: standard flags, each of which can also be given in the
// environment as FAIRLEAD_<FLAG>, or in the file that FAIRLEAD_<FLAG>_FILE names, and one main that ends well.
//
// A flag on the command line wins over the environment, the environment wins over the default.
package flags

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"fairlead.dev/platform/version"
)

// Prefix begins the name of every environment variable that stands for a flag.
const Prefix = "FAIRLEAD_"

// ErrDone is returned by Parse when the flags asked for something that has been printed already
// (--help, --version): there is nothing left to do, and the exit code is 0.
var ErrDone = errors.New("done")

// ErrHelp is the ErrDone of --help, for programs that have more to say than their flags.
var ErrHelp = fmt.Errorf("help: %w", ErrDone)

// EnvName returns the environment variable that stands for a flag: "hub-url" -> "FAIRLEAD_HUB_URL".
func EnvName(flagName string) string {
	return Prefix + strings.ToUpper(strings.ReplaceAll(flagName, "-", "_"))
}

// Parse fills the flags of fs from the environment and then from args (without the program's
// name), and adds --version. Arguments that are not flags are refused. Variables of the
// environment that name no flag are left alone. fs should be made with flag.ContinueOnError.
func Parse(fs *flag.FlagSet, args []string, getenv func(string) string) error {
	showVersion := false
	if fs.Lookup("version") == nil {
		fs.BoolVar(&showVersion, "version", false, "print the version and exit")
	}
	if err := fromEnvironment(fs, getenv); err != nil {
		return err
	}
	usage := fs.Usage
	fs.Usage = func() {} // One message for one mistake: the error that is returned.
	output := fs.Output()
	fs.SetOutput(io.Discard)
	err := fs.Parse(args)
	fs.SetOutput(output)
	fs.Usage = usage
	switch {
	case errors.Is(err, flag.ErrHelp):
		printUsage(fs)
		return ErrHelp
	case err != nil:
		return fmt.Errorf("%w; see %s --help", err, fs.Name())
	case showVersion:
		fmt.Fprintln(fs.Output(), fs.Name(), version.String())
		return ErrDone
	case fs.NArg() > 0:
		return fmt.Errorf("unexpected argument %q: all settings are flags; see %s --help", fs.Arg(0), fs.Name())
	}
	return nil
}

func fromEnvironment(fs *flag.FlagSet, getenv func(string) string) error {
	var errs []error
	fs.VisitAll(func(f *flag.Flag) {
		if f.Name == "version" {
			return // FAIRLEAD_VERSION is too likely to mean something else.
		}
		value, err := fromVariables(fs, f.Name, getenv)
		if err != nil {
			errs = append(errs, err)
			return
		}
		if value == "" {
			return
		}
		if err := fs.Set(f.Name, value); err != nil {
			// The value may be a secret or hold one: it is not repeated.
			errs = append(errs, fmt.Errorf("environment variable %s: not a valid value for --%s%s", EnvName(f.Name), f.Name, describeValid(f)))
		}
	})
	return errors.Join(errs...)
}

// describeValid says what a flag takes, by its type or by its default; "": its help says so.
func describeValid(f *flag.Flag) string {
	getter, ok := f.Value.(flag.Getter)
	if !ok {
		return ""
	}
	switch getter.Get().(type) {
	case time.Duration:
		return ": write a number and its unit, such as 5s, 10m or 2h"
	case int, int64, uint, uint64:
		return ": write a whole number, without a unit"
	case float64:
		return ": write a number"
	case bool:
		return ": write true or false"
	case *slog.Level:
		return ": write debug, info, warn or error"
	}
	return ""
}

// maxFileBytes bounds the value of a flag in a file.
const maxFileBytes = 64 << 10

// fromVariables is the value in the flag's variable, or in the file that another names: secrets are mounted so.
func fromVariables(fs *flag.FlagSet, flagName string, getenv func(string) string) (string, error) {
	name := EnvName(flagName)
	value, path := getenv(name), getenv(name+"_FILE")
	if path == "" || fs.Lookup(flagName+"-file") != nil { // then the variable is that flag's
		return value, nil
	}
	if value != "" {
		return "", fmt.Errorf("environment variables %s and %[1]s_FILE are both set: unset one", name)
	}
	value, err := ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("environment variable %s_FILE: %w", name, err)
	}
	return value, nil
}

// ReadFile reads the value of a flag from a file: all of it, without the space around it.
func ReadFile(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	content, err := io.ReadAll(io.LimitReader(file, maxFileBytes))
	if err := errors.Join(err, file.Close()); err != nil {
		return "", err
	}
	value := strings.TrimSpace(string(content))
	if value == "" {
		return "", fmt.Errorf("%s is empty", path)
	}
	return value, nil
}

// CheckURL says what is wrong with the URL of a flag. The error does not repeat it: it may hold a password.
func CheckURL(flagName, raw string) error {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil {
		return fmt.Errorf("%s: must be a URL such as https://hub.example.com:7400, without user and password", flagName)
	}
	return nil
}

// List is the function of a flag that takes several values, separated by commas or spaces.
func List(into *[]string) func(string) error {
	return func(s string) error {
		*into = strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
		return nil
	}
}

func printUsage(fs *flag.FlagSet) {
	fmt.Fprintf(fs.Output(), "Usage: %[1]s [flags]\n\nEvery flag can also be set in the environment: --data-dir is %[2]s,\nor in a file that %[2]s_FILE names.\n\nFlags:\n", fs.Name(), EnvName("data-dir"))
	fs.PrintDefaults()
}

// Exit is an error that ends a program with this code, without a word: all is said.
type Exit int

func (e Exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// Main runs a program to its end and exits: 0 after a normal end, 1 after an error, which it
// prints, and the code of an Exit. SIGINT and SIGTERM end the context once; a second signal exits at once with 130.
//
//	func main() { flags.Main(run) }
//	func run(ctx context.Context, args []string, getenv func(string) string, stdout io.Writer) error
func Main(run func(ctx context.Context, args []string, getenv func(string) string, stdout io.Writer) error) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		<-signals
		os.Exit(130)
	}()
	err := run(ctx, os.Args[1:], os.Getenv, os.Stdout)
	cancel()
	if code, ok := errors.AsType[Exit](err); ok {
		os.Exit(int(code))
	}
	if err != nil && !errors.Is(err, ErrDone) {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}
