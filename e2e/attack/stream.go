package attack

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"fairlead.dev/e2e/process"
)

// listening is how long a stream is listened to that stays silent.
const listening = 1500 * time.Millisecond

// envelope is a message of a stream, as the Connect protocol frames it.
func envelope(message string) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
}

// stream opens a stream, sends one message, and listens a while. The code is that of the end, 200 if there is none yet.
func (t *Try) stream(ctx context.Context, part, procedure, token, message string) (Answer, error) {
	return t.streamAs(ctx, part, procedure, token, "application/connect+json", message)
}

func (t *Try) streamAs(ctx context.Context, part, procedure, token, contentType, message string) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, listening)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.world.Hub[part]+procedure, bytes.NewReader(envelope(message)))
	if err != nil {
		return Answer{}, err
	}
	req.Header.Set("Content-Type", contentType)
	if err := t.world.authorize(req, token); err != nil {
		return Answer{}, err
	}
	resp, err := t.client.Do(req)
	if errors.Is(err, context.DeadlineExceeded) {
		return Answer{Code: http.StatusOK}, nil // the stream waits for something to tell
	}
	if err != nil {
		return Answer{}, err
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, most)) // cut off when listening is over
	a := Answer{resp.StatusCode, resp.Header, string(text)}
	if at := strings.LastIndex(a.Body, `{"error":`); at >= 0 {
		var end struct{ Error struct{ Code string } }
		if json.Unmarshal([]byte(a.Body[at:]), &end) == nil {
			a.Code = statusOf(end.Error.Code)
		}
	}
	return a, nil
}

// statusOf is the HTTP status of an error of the Connect protocol.
func statusOf(code string) int {
	switch code {
	case "invalid_argument", "failed_precondition", "out_of_range":
		return http.StatusBadRequest
	case "unauthenticated":
		return http.StatusUnauthorized
	case "permission_denied":
		return http.StatusForbidden
	case "not_found":
		return http.StatusNotFound
	case "already_exists", "aborted":
		return http.StatusConflict
	case "resource_exhausted":
		return http.StatusTooManyRequests
	case "canceled", "deadline_exceeded":
		return http.StatusRequestTimeout
	case "unavailable":
		return http.StatusServiceUnavailable
	default:
		return http.StatusInternalServerError
	}
}

// listen reads an answer until it ends. began is called when its head is there.
func (t *Try) listen(ctx context.Context, url, token string, began func()) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	if err := t.world.authorize(req, token); err != nil {
		return err
	}
	resp, err := t.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	began()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// awaitCode asks until the answer has a status.
func (t *Try) awaitCode(ctx context.Context, url, token string, code int) error {
	return process.Await(ctx, fmt.Sprintf("the answer is %d", code), func(ctx context.Context) error {
		a, err := t.get(ctx, url, token)
		if err == nil && a.Code != code {
			err = errors.New(a.String())
		}
		return err
	})
}

// awaitCall calls until the answer has a status.
func (t *Try) awaitCall(ctx context.Context, part, procedure, token string, code int) error {
	return process.Await(ctx, fmt.Sprintf("the answer is %d", code), func(ctx context.Context) error {
		a, err := t.call(ctx, part, procedure, token, map[string]any{})
		if err == nil && a.Code != code {
			err = errors.New(a.String())
		}
		return err
	})
}
