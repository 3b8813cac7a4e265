package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"fairlead.dev/cli/internal/hubclient"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
)

// FindDetail finds a detail of an error of the hub.
func FindDetail[M proto.Message](err error) (found M, ok bool) {
	e, ok := errors.AsType[*connect.Error](err)
	if !ok {
		return found, false
	}
	for _, d := range e.Details() {
		if m, err := d.Value(); err == nil {
			if found, ok = m.(M); ok {
				return found, true
			}
		}
	}
	return found, false
}

// ConfirmAndDo calls do, and again with a confirmation if it asks for one and a person (or yes) agrees.
func (a *App) ConfirmAndDo(
	ctx context.Context, yes bool, do func(ctx context.Context, confirmation string) error,
) error {
	call := func(confirmation string) error {
		ctx, cancel := context.WithTimeout(ctx, hubclient.WriteTimeout)
		defer cancel()
		return do(ctx, confirmation)
	}
	err := call("")
	wanted, ok := FindDetail[*consolev1.ConfirmationWanted](err)
	if !ok {
		return err
	}
	if yes { // what the hub refuses all the same has no consequences
		if err := call(wanted.GetConfirmation()); err != nil {
			return err
		}
		a.noteConsequences(err, wanted)
		return nil
	}
	a.noteConsequences(err, wanted)
	if !a.AskAgreement(ctx) {
		return errors.New("nothing was done: say --yes to go on")
	}
	return call(wanted.GetConfirmation())
}

func (a *App) noteConsequences(err error, wanted *consolev1.ConfirmationWanted) {
	a.Notef("%s\n", strings.TrimSuffix(err.Error(), ": confirm it"))
	for _, line := range wanted.GetConsequences() {
		a.Notef("  %s\n", line)
	}
}

// AskAgreement asks on a terminal. An interrupt is no agreement.
func (a *App) AskAgreement(ctx context.Context) bool {
	if !IsTerminal(a.Stdin) {
		return false
	}
	a.Notef("Go on? [y/N] ")
	return slices.Contains([]string{"y", "yes"}, strings.ToLower(readAnswer(ctx, a.Stdin)))
}

// readAnswer reads the one word of a line; empty: there is none, or ctx ends before.
func readAnswer(ctx context.Context, from io.Reader) string {
	answer, err := Await(ctx, func() (answer string, err error) {
		_, err = fmt.Fscanln(from, &answer)
		return answer, err
	})
	if err != nil {
		return ""
	}
	return answer
}

// Await returns what a read gives, unless ctx ends before. Nothing ends a read of a terminal: the goroutine ends with the
// program then.
func Await[T any](ctx context.Context, read func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := read()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

// IsTerminal says whether a person reads or writes there.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}
