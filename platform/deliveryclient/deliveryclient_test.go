package deliveryclient_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"

	"connectrpc.com/connect"

	"fairlead.dev/platform/deliveryclient"
)

func TestTryGoesOnToTheNextAndStaysThere(t *testing.T) {
	t.Parallel()
	d := deliveryclient.New(http.DefaultClient, nil)
	urls := []string{"http://a", "http://b", "http://c"}
	d.Set(urls)
	var asked []string
	call := func(_ context.Context, one deliveryclient.Distributor) error {
		asked = append(asked, one.URL)
		if one.URL != "http://b" {
			return connect.NewError(connect.CodeUnavailable, errors.New("down"))
		}
		return nil
	}
	for range 2 {
		if err := d.Try(t.Context(), call); err != nil {
			t.Fatal(err)
		}
	}
	if last := asked[len(asked)-2:]; !slices.Equal(last, []string{"http://b", "http://b"}) {
		t.Errorf("asked %v", asked)
	}
	d.Set([]string{"http://c", "http://b"})
	if one, _ := d.Current(); one.URL != "http://b" {
		t.Errorf("a new list moved the agent to %s", one.URL)
	}
}

func TestTryTellsTheLastErrorAndAsksEachOnce(t *testing.T) {
	t.Parallel()
	refused := 0
	d := deliveryclient.New(http.DefaultClient, func() { refused++ })
	if err := d.Try(t.Context(), nil); !errors.Is(err, deliveryclient.ErrNone) {
		t.Errorf("without a distributor: %v", err)
	}
	d.Set([]string{"http://a", "http://b"})
	for code, want := range map[connect.Code]int{
		connect.CodeUnavailable: 2, connect.CodeNotFound: 2, connect.CodeUnauthenticated: 1,
		connect.CodeInvalidArgument: 1,
	} {
		count := 0
		err := d.Try(t.Context(), func(context.Context, deliveryclient.Distributor) error {
			count++
			return connect.NewError(code, errors.New("no"))
		})
		if count != want || connect.CodeOf(err) != code {
			t.Errorf("%v: asked %d times, want %d: %v", code, count, want, err)
		}
	}
	if refused != 1 {
		t.Errorf("told %d times that the token was refused", refused)
	}
}
