// Command testpod is what tests run in pods.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		args = []string{"serve"}
	}
	switch command, args := args[0], args[1:]; command {
	case "serve": // [TEXT]: answers with the host's name and TEXT
		return serve(strings.Join(args, " "))
	case "get": // URL
		client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
		response, err := client.Get(args[0]) //nolint:noctx // it has a limit
		if err != nil {
			return err
		}
		defer response.Body.Close()
		_, err = io.Copy(os.Stdout, response.Body)
		return err
	case "lookup": // NAME
		addresses, err := net.DefaultResolver.LookupHost(context.Background(), args[0])
		fmt.Println(strings.Join(addresses, " "))
		return err
	case "srv": // NAME
		_, records, err := net.DefaultResolver.LookupSRV(context.Background(), "", "", args[0])
		for _, r := range records {
			fmt.Println(r.Target, r.Port)
		}
		return err
	case "append": // FILE LINE
		file, err := os.OpenFile(args[0], os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(file, args[1])
		return errors.Join(err, file.Sync(), file.Close())
	case "read": // FILE
		content, err := os.ReadFile(args[0])
		fmt.Print(string(content))
		return err
	case "echo": // copies stdin to stdout
		_, err := io.Copy(os.Stdout, os.Stdin)
		return err
	case "exit": // CODE
		code, err := strconv.Atoi(args[0])
		if err != nil {
			return err
		}
		os.Exit(code)
	case "eat": // MIB: takes memory
		size, err := strconv.Atoi(args[0])
		if err != nil {
			return err
		}
		taken := make([]byte, size<<20)
		for i := range taken {
			taken[i] = 1
		}
		fmt.Println(len(taken))
		_, err = bufio.NewReader(os.Stdin).ReadByte()
		return err
	default:
		return fmt.Errorf("unknown command %q", command)
	}
	return nil
}

// serve prints a line a second and answers HTTP until SIGTERM.
func serve(text string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	server := http.Server{Addr: ":8080", Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { //nolint:gosec // of a test
		fmt.Fprintln(w, name, text)
	})}
	go func() {
		for n := 1; ctx.Err() == nil; n++ {
			log.Printf("%s line %d %s", name, n, text)
			time.Sleep(time.Second)
		}
		log.Print("terminating")
		_ = server.Close()
	}()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
