package up

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"
)

// TestMain plays, for the tests, the programs that are run beside the hub.
func TestMain(m *testing.M) {
	switch os.Getenv("UP_TEST_PLAYS") {
	case "":
		os.Exit(m.Run())
	case "cluster": // Says READY and ends when asked to.
		asked := make(chan os.Signal, 1)
		signal.Notify(asked, syscall.SIGTERM)
		fmt.Fprintln(os.Stdout, "READY name=x server=https://127.0.0.1:1 kubeconfig=/a folder/kubeconfig")
		<-asked
		fmt.Fprintln(os.Stdout, "ending")
	case "mayfly": // Dies at once.
		fmt.Fprintln(os.Stderr, "first words\nlast words")
		os.Exit(3)
	case "deaf": // Does not end when asked to.
		signal.Ignore(syscall.SIGTERM)
		fmt.Fprintln(os.Stdout, "READY")
		<-time.After(time.Hour)
	}
}
