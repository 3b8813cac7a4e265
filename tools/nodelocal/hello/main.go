// Command hello is the program of the sample's pods in `fairlead up`: it logs the greeting of its ConfigMap and answers
// HTTP requests with it, so that a commit to the sample is seen in the logs of a running container.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// greetingFile is a key of a ConfigMap that the sample mounts; kubelet replaces the file when the ConfigMap changes.
	greetingFile = "/etc/hello/greeting"
	// lookInterval is how soon a new greeting is noticed, logInterval how often the present one is logged.
	lookInterval, logInterval = time.Second, 5 * time.Second
	readLimit                 = 5 * time.Second // of a request's header
)

const usage = `usage:
  hello        log the greeting and answer HTTP requests at :8080
  hello say    print the greeting once
`

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "hello:", err)
		os.Exit(1)
	}
}

func run(args []string, stdout io.Writer) error {
	switch strings.Join(args, " ") {
	case "":
		return serve(stdout)
	case "say":
		name, err := os.Hostname()
		fmt.Fprintf(stdout, "%s says: %s\n", name, greeting())
		return err
	}
	return fmt.Errorf("unknown command %q\n%s", args, usage)
}

// greeting returns the text of the ConfigMap, or why there is none.
func greeting() string {
	text, err := os.ReadFile(greetingFile)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(text))
}

// serve runs until SIGTERM.
func serve(stdout io.Writer) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	var requests atomic.Int64
	server := http.Server{Addr: ":8080", ReadHeaderTimeout: readLimit, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		fmt.Fprintln(w, greeting())
	})}
	served := make(chan error, 1)
	go func() { served <- server.ListenAndServe() }()
	say := func(text string) {
		fmt.Fprintf(stdout, "%s %s\n", time.Now().UTC().Format(time.RFC3339), text)
	}
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	var last string
	var logged time.Time
	for {
		if text := greeting(); text != last || time.Since(logged) >= logInterval {
			say(fmt.Sprintf("%s (%d requests)", text, requests.Load()))
			last, logged = text, time.Now()
		}
		select {
		case <-tick.C:
		case err := <-served:
			return err
		case <-ctx.Done():
			say("asked to end")
			if err := server.Close(); err != nil && !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		}
	}
}
