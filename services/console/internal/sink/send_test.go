package sink

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/timestamppb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/dialpolicy"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/event"
	"fairlead.dev/services/console/internal/resource"
	"fairlead.dev/services/console/internal/store"
	"fairlead.dev/services/console/internal/store/storetest"
)

const plantedSecret = "planted/secret+of 'a' \"sink\""

// serve has each connection talked to, on this machine.
func serve(t *testing.T, talk func(net.Conn)) (address string) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer func() { _ = conn.Close() }(); talk(conn) }()
		}
	}()
	return l.Addr().String()
}

// answers is an HTTP server that says this, whatever it is asked, and then text without an end if there is some.
func answers(t *testing.T, says, endless string) target {
	t.Helper()
	address := serve(t, func(conn net.Conn) {
		req, err := http.ReadRequest(bufio.NewReader(conn))
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, req.Body)
		_, err = io.WriteString(conn, says)
		for endless != "" && err == nil {
			_, err = io.WriteString(conn, endless)
		}
	})
	return target{
		uid: "uid", name: "hook", spec: resource.SinkSpec{Webhook: &resource.WebhookSink{URL: "http://" + address + "/"}},
		credentials: map[string]string{resource.SinkKey: plantedSecret},
	}
}

// mailer answers each command as say does, by TLS from the start; an empty answer is the usual one.
func mailer(t *testing.T, say func(command string) string) target {
	t.Helper()
	authority := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate
	t.Cleanup(authority.Close)
	config := &tls.Config{Certificates: authority.TLS.Certificates, MinVersion: tls.VersionTLS12}
	address := serve(t, func(raw net.Conn) {
		conn := tls.Server(raw, config)
		in := bufio.NewReader(conn)
		for line := "HI"; ; {
			usual := "250 ok"
			switch verb, _, _ := strings.Cut(line, " "); verb {
			case "HI":
				usual = "220 hi"
			case "EHLO":
				usual = "250-hi\r\n250 AUTH PLAIN"
			case "AUTH":
				usual = "235 welcome"
			case "DATA":
				usual = "354 go on"
			case "":
				return
			}
			if said := say(line); said != "" {
				usual = said
			}
			if _, err := io.WriteString(conn, usual+"\r\n"); err != nil {
				return
			}
			if line == "DATA" && strings.HasPrefix(usual, "354") {
				for text := ""; text != ".\r\n"; {
					var err error
					if text, err = in.ReadString('\n'); err != nil {
						return
					}
				}
				line = "MAILED"
				continue
			}
			next, _ := in.ReadString('\n')
			line = strings.TrimSpace(next)
		}
	})
	return target{uid: "uid", name: "mail", credentials: map[string]string{resource.SinkPassword: plantedSecret}, spec: resource.SinkSpec{Email: &resource.EmailSink{
		Server: address, ImplicitTLS: true, From: "hub@example.com", To: []string{"ops@example.com", "dev@example.com"},
		Username: "hub",
		CA:       string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority.Certificate().Raw})),
	}}}
}

// plainly is what speaks no TLS where it should.
func plainly(t *testing.T) target {
	t.Helper()
	address := serve(t, func(conn net.Conn) {
		_, _ = io.WriteString(conn, "220 hello\r\n")
		_, _ = io.Copy(io.Discard, conn)
	})
	return target{name: "hook", spec: resource.SinkSpec{Webhook: &resource.WebhookSink{URL: "https://" + address}}}
}

// strange is a mailer of an authority that nobody knows.
func strange(t *testing.T) target {
	t.Helper()
	to := mailer(t, func(string) string { return "" })
	to.spec.Email.CA = ""
	return to
}

func newDeliverer() *Deliverer {
	return &Deliverer{
		Addresses: dialpolicy.New([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}), Metrics: NewMetrics(),
		Log: slog.New(slog.DiscardHandler), Now: time.Now,
	}
}

// The text of a receiver's answer can be kept by any database, is short, and has nothing of what was sent.
func TestWhatOthersSayIsFitToBeKept(t *testing.T) {
	t.Parallel()
	const head = "HTTP/1.1 500 Broken\r\nConnection: close\r\n\r\n"
	encoded := base64.StdEncoding.EncodeToString([]byte("\x00hub\x00" + plantedSecret))
	for name, test := range map[string]struct {
		to   target
		want string
	}{
		"bytes":              {answers(t, head+"a\x00b \xff\xfe\x1b[31m\u009b0m \n c", ""), "500 Broken a b ? [31m 0m c"},
		"a status line":      {answers(t, "HTTP/1.1 500 \xff\x00"+strings.Repeat("x", 9000)+"\r\nConnection: close\r\n\r\n", ""), "500 ?"},
		"a longer one":       {answers(t, "HTTP/1.1 500 ", strings.Repeat("x", 9000)), "exceeded 65536 bytes"},
		"headers":            {answers(t, "HTTP/1.1 200 OK\r\n", "X-Y: "+strings.Repeat("x", 9000)+"\r\n"), "exceeded 65536 bytes"},
		"a body":             {answers(t, head, strings.Repeat("\U0001F4A5", 3000)), "500 Broken \U0001F4A5"},
		"the key":            {answers(t, head+"not with "+plantedSecret, ""), "not with ***"},
		"the key, cut":       {answers(t, head+strings.Repeat("x", 100)+strings.Repeat(plantedSecret, 1000), ""), "xxx***"},
		"the key, quoted":    {answers(t, plantedSecret+" is not HTTP\r\n\r\n", ""), "malformed HTTP"},
		"a greeting":         {mailer(t, func(c string) string { return map[string]string{"HI": "554 \x00\xff go away"}[c] }), "554 "},
		"lines without end":  {mailer(t, func(c string) string { return map[string]string{"HI": strings.Repeat("220-hi\r\n", 40000)}[c] }), "more than 262144 bytes"},
		"a line without end": {mailer(t, func(c string) string { return map[string]string{"HI": "220 " + strings.Repeat("hi ", 100000)}[c] }), "more than 262144 bytes"},
		"a long reply":       {mailer(t, func(c string) string { return map[string]string{"DATA": "550 " + strings.Repeat("no ", 9000)}[c] }), "550 no no"},
		"no TLS":             {plainly(t), "the receiver speaks no TLS at this port: "},
		"a strange server":   {strange(t), "give its authority as ca): "},
		"the password": {mailer(t, func(c string) string {
			if strings.HasPrefix(c, "AUTH") {
				return "535 not with " + strings.TrimPrefix(c, "AUTH PLAIN ") + ", which is " + plantedSecret
			}
			return ""
		}), "535 not with ***, which is ***"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer, problem := newDeliverer().sender().send(t.Context(), test.to, samples())
			if problem == nil {
				t.Fatalf("taken: %q", answer)
			}
			got := problem.message
			if !strings.Contains(got, test.want) || !utf8.ValidString(got) || oneLine(got) != got ||
				len(got) > maxShown+len("…") {
				t.Errorf("%d bytes: %q, want %q", len(got), got, test.want)
			}
			if strings.Contains(got, "planted") || strings.Contains(got, encoded) {
				t.Errorf("shown: %q", got)
			}
		})
	}
}

func waitingFor(n int) (list []waiting) {
	for i := range n {
		list = append(list, waiting{
			seq:   int64(i + 1),
			Event: &consolev1.Event{Id: string(rune('a' + i)), Type: event.ServiceFailed, Time: timestamppb.Now()},
		})
	}
	return list
}

// A recipient that is refused keeps the mail from no other, and that is told.
func TestARecipientThatIsRefused(t *testing.T) {
	t.Parallel()
	refuses := make(chan string, 1)
	mails := 0
	to := mailer(t, func(command string) string {
		refused := <-refuses
		refuses <- refused
		switch {
		case command == "MAILED":
			mails++
		case refused != "" && strings.HasPrefix(command, "RCPT TO:<"+refused):
			return "550 nobody of that name"
		case refused == "later@" && strings.HasPrefix(command, "RCPT TO:<dev@"):
			return "450 try later"
		}
		return ""
	})
	d, b := newDeliverer(), batch{target: to, waiting: waitingFor(2), next: 2}
	var of store.Sending
	now := func(refused string) (told []string) {
		t.Helper()
		refuses <- refused
		defer func() { <-refuses }()
		tell, _ := d.send(t.Context(), &of, b)
		for _, e := range tell {
			told = append(told, e.Type)
		}
		return told
	}
	for i, want := range []string{"", "", event.SinkFailing, ""} {
		of.Seq = 0
		if told := now("dev@"); strings.Join(told, " ") != want || of.Seq != 2 || of.Waiting != 0 ||
			of.Sent != int64(2*i+2) || mails != i+1 {
			t.Errorf("mail %d: told %v: %+v", i, told, of)
		}
	}
	if want := "not all of 2 recipients get mail: the server does not take the recipient dev@example.com: 550 nobody of that name"; of.Problem != want {
		t.Errorf("problem %q", of.Problem)
	}
	if told := now(""); !slices.Equal(told, []string{event.SinkRecovered}) || of.Problem != "" {
		t.Errorf("told %v: %+v", told, of)
	}
	// A recipient that may be taken later is waited for.
	of = store.Sending{}
	if now("later@"); of.Waiting != 2 || of.Sent != 0 || of.Seq != 0 {
		t.Errorf("%+v", of)
	}
}

// An event is given up for being itself refused, not for what was wrong else.
func TestAnEventIsGivenUpAfterItsOwnRejections(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]struct {
		of                 func(reply *string) target
		later, never, fine string
	}{
		"webhook": {func(reply *string) target {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(map[string]int{"later": 503, "never": 400, "fine": 200}[*reply])
			}))
			t.Cleanup(server.Close)
			return target{
				name: "hook", spec: resource.SinkSpec{Webhook: &resource.WebhookSink{URL: server.URL}},
				credentials: map[string]string{resource.SinkKey: plantedSecret},
			}
		}, "later", "never", "fine"},
		"sender": {func(reply *string) target {
			return mailer(t, func(c string) string {
				if strings.HasPrefix(c, "MAIL") {
					return *reply
				}
				return ""
			})
		}, "451 later", "550 never", "250 fine"},
		"recipients": {func(reply *string) target {
			return mailer(t, func(c string) string {
				if strings.HasPrefix(c, "RCPT") {
					return *reply
				}
				return ""
			})
		}, "451 later", "550 never", "250 fine"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var reply string
			d, b := newDeliverer(), batch{target: kind.of(&reply), waiting: waitingFor(2), next: 2}
			var of store.Sending
			send := func(says string) (told []string) {
				reply = says
				tell, _ := d.send(context.Background(), &of, b)
				for _, e := range tell {
					told = append(told, e.Type)
				}
				return told
			}
			for range 20 {
				send(kind.later)
			}
			for i := range rejections - 1 {
				if told := send(kind.never); len(told) > 0 || of.Seq != 0 || of.Rejections != i+1 {
					t.Errorf("rejection %d told %v: %+v", i, told, of)
				}
			}
			send(kind.later) // says nothing of the event
			if told := send(kind.never); !slices.Equal(told, []string{event.SinkDropped}) || of.Seq != 1 ||
				of.Waiting != 1 || of.Dropped != 1 || of.Rejections != 0 {
				t.Errorf("told %v: %+v", told, of)
			}
			b.waiting = b.waiting[1:]
			if told := send(kind.fine); !slices.Equal(told, []string{event.SinkRecovered}) || of.Seq != 2 ||
				of.Sent != 1 {
				t.Errorf("told %v: %+v", told, of)
			}
		})
	}
}

// A waiting event has to fit a filter, too, that is changed while a console has taken the sending on.
func TestAFilterThatIsChangedAfterAClaimIsHeldTo(t *testing.T) {
	t.Parallel()
	s := storetest.SQLite(t)
	write := func(fn func(context.Context, *store.Tx) error) {
		t.Helper()
		if err := s.Write(t.Context(), "user:ada", fn); err != nil {
			t.Fatal(err)
		}
	}
	d := newDeliverer()
	d.Store, d.ID, d.Catalog = s, "a", &catalog.Catalog{}
	hook := Hook{Catalog: d.Catalog}
	var row store.Resource
	write(func(ctx context.Context, tx *store.Tx) error {
		list, err := tx.Create(ctx, store.Draft{
			Kind: store.KindSink, Name: "hook",
			Spec: []byte(`{"webhook":{"url":"https://x.invalid/"},"types":["service.degraded"]}`),
		})
		if err != nil {
			return err
		}
		row = list[0]
		return tx.BeginSending(ctx, row.UID)
	})
	if err := s.AddEvents(t.Context(), store.Event{
		ID: "a", Time: time.Now(), Type: event.ServiceHealthy, Event: fmt.Appendf(nil,
			`{"type":"service.healthy","severity":"SEVERITY_INFO","time":%q}`, time.Now().UTC().Format(time.RFC3339)),
	}); err != nil {
		t.Fatal(err)
	}
	of, mine, err := s.ClaimSending(t.Context(), row.UID, d.ID, claimFor)
	if err != nil || !mine {
		t.Fatalf("claimed: %v, %v", mine, err)
	}
	write(func(ctx context.Context, tx *store.Tx) error {
		after, err := tx.Update(ctx, row, store.Draft{
			Kind: row.Kind, Name: row.Name,
			Spec: []byte(`{"webhook":{"url":"https://x.invalid/"},"types":["service.*"]}`),
		})
		if err != nil {
			return err
		}
		return hook.keepFilter(ctx, tx, row, after)
	})
	err = s.Read(t.Context(), func(ctx context.Context, v store.View) error {
		row, err := v.WithUID(ctx, row.UID)
		if err != nil {
			return err
		}
		b, err := d.gather(ctx, v, of, row)
		if len(b.waiting)+b.stale > 0 {
			t.Errorf("%d events come that were not for the sink", len(b.waiting))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// An event waits for the interval before it is tried, for longer than the sink would try it again.
func TestAnEventThatWasNeverTriedIsNotGivenUp(t *testing.T) {
	t.Parallel()
	s := storetest.SQLite(t)
	d := newDeliverer()
	d.Store, d.Catalog = s, &catalog.Catalog{}
	now := time.Now()
	d.Now = func() time.Time { return now }
	spec, err := json.Marshal(resource.SinkSpec{
		Webhook: &resource.WebhookSink{URL: "https://x.invalid/"}, Interval: time.Hour, RetryFor: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	var row store.Resource
	if err := s.Write(t.Context(), "user:ada", func(ctx context.Context, tx *store.Tx) error {
		list, err := tx.Create(ctx, store.Draft{Kind: store.KindSink, Name: "hook", Spec: spec})
		if err != nil {
			return err
		}
		row = list[0]
		tx.Tell(event.Held("edge-1", []string{"web"}, now))
		return tx.BeginSending(ctx, row.UID)
	}); err != nil {
		t.Fatal(err)
	}
	waits := func(waiting, stale int) {
		t.Helper()
		err := s.Read(t.Context(), func(ctx context.Context, v store.View) error {
			b, err := d.gather(ctx, v, store.Sending{Sink: row.UID}, row)
			if len(b.waiting) != waiting || b.stale != stale {
				t.Errorf("%d events wait and %d are given up, want %d and %d", len(b.waiting), b.stale, waiting, stale)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	waits(1, 0)
	now = now.Add(time.Hour)
	waits(1, 0)
	now = now.Add(2 * time.Minute)
	waits(0, 1)
}
