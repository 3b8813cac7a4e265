package artifact

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// answerTime is how long one part of the hub may take to begin its answer while another could be asked: an
// artifact that has to be made first takes some seconds.
const answerTime = 30 * time.Second

var errLate = fmt.Errorf("no answer within %s", answerTime)

// Begin is Fetch from one part of the hub where another one could be asked: the answer has to begin in time.
func Begin(ctx context.Context, hc *http.Client, url string, d Digest) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	late := time.AfterFunc(answerTime, func() { cancel(errLate) })
	body, err := Fetch(ctx, hc, url, d, 0)
	inTime := late.Stop()
	if inTime && err == nil {
		return &ending{body, cancel}, nil
	}
	if err == nil { // the content came in the very moment in which it was given up
		err = errors.Join(errLate, body.Close())
	} else if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	cancel(nil)
	return nil, err
}

// ending ends a download's context with its reader.
type ending struct {
	io.ReadCloser

	cancel context.CancelCauseFunc
}

func (e *ending) Close() error {
	defer e.cancel(nil)
	return e.ReadCloser.Close()
}
