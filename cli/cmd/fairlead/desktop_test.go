package main

import (
	"bufio"
	"os"
	"os/exec"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// desktop starts a D-Bus session and an unlocked keyring for the rest of the script.
func desktop(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: desktop")
	}
	ts.Setenv("DBUS_SESSION_BUS_ADDRESS", serve(ts, "", "dbus-daemon", "--session", "--nofork", "--print-address"))
	serve(ts, "password", "gnome-keyring-daemon", "--unlock", "--components=secrets", "--foreground",
		"--control-directory="+ts.MkAbs("keyring"))
}

// serve starts a program that runs until the script ends, and returns its first line: then it is ready.
func serve(ts *testscript.TestScript, stdin string, program string, args ...string) string {
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), "HOME="+ts.MkAbs("."), "XDG_DATA_HOME="+ts.MkAbs("data"),
		"DBUS_SESSION_BUS_ADDRESS="+ts.Getenv("DBUS_SESSION_BUS_ADDRESS"))
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	ts.Defer(func() {
		_ = cmd.Process.Kill() // the process may have ended
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	ts.Check(err)
	return strings.TrimSpace(line)
}
