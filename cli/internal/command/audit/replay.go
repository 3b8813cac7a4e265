package audit

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/resource"
	"fairlead.dev/cli/internal/table"
	"fairlead.dev/cli/internal/view"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/durable"
	"fairlead.dev/platform/retry"
)

// replay is how a recording is played.
type replay struct {
	cluster, subject string
	limit            int
	format           string
	speed            float64
	idle             time.Duration
	output           string
}

func replayCommand(a *app.App) *cobra.Command {
	var p replay
	cmd := &cobra.Command{
		Use:   "replay [ID]",
		Short: "List and play recordings of shells in pods",
		Long: `List and play recordings of shells in pods (exec, attach). spec.recording of a project turns them on.

Without an ID it lists recordings, the newest first; with one it plays the recording in this terminal, or writes it into a file that asciinema plays, too.
This takes a role that may view the kind Recording, or an administrator; the audit trail has each reader. Recordings hold the
output, and not the input. The output is played as it was, with its codes for the terminal.`,
		Example: "  fairlead replay --cluster edge-1 --user ada\n  fairlead replay 019a8b2f4c11d0e6a1b2c3d4e5f60718 --speed 4 --idle-limit 1s\n  fairlead replay 019a8b2f4c11d0e6a1b2c3d4e5f60718 --output-file session.cast",
		Args:    app.WantArgs(0, 1),
	}
	cmd.Flags().StringVar(&p.cluster, "cluster", "", "list those of this cluster only")
	cmd.Flags().StringVar(&p.subject, "user", "", "list those of this user only; also serviceaccount:NAME")
	cmd.Flags().IntVar(&p.limit, "limit", 50, "list so many of the newest at most; 0: all")
	cmd.Flags().StringVarP(&p.format, "output", "o", app.FormatTable, "form of the list: table, wide, json, yaml")
	cmd.Flags().Float64Var(&p.speed, "speed", 1, "play so many times as fast")
	cmd.Flags().DurationVar(&p.idle, "idle-limit", 0,
		"play pauses that are longer as long as this, such as 2s; 0: as they were")
	cmd.Flags().StringVar(&p.output, "output-file", "",
		"`file` (.cast) to write the recording into, instead of playing it")
	cmd.RunE = a.HubCommand(func(ctx context.Context, h *hubclient.Hub, args []string) error {
		switch {
		case p.speed <= 0:
			return errors.New("--speed must be more than 0")
		case p.idle < 0:
			return errors.New("--idle-limit can't be negative")
		case len(args) == 0:
			return listRecordings(ctx, a, h, p)
		case p.output != "":
			return exportRecording(ctx, a, h, args[0], p.output)
		}
		return playRecording(ctx, a, h, args[0], p)
	})
	return cmd
}

func listRecordings(ctx context.Context, a *app.App, h *hubclient.Hub, p replay) error {
	if err := app.CheckLeast("limit", p.limit, 0); err != nil {
		return err
	}
	if p.limit == 0 {
		p.limit = math.MaxInt
	}
	if p.subject != "" && !bytes.ContainsRune([]byte(p.subject), ':') {
		p.subject = "user:" + p.subject
	}
	list := &consolev1.ListRecordingsResponse{}
	for token := ""; len(list.GetRecordings()) < p.limit; {
		res, err := h.Recordings.ListRecordings(ctx, &consolev1.ListRecordingsRequest{
			PageSize:  int32(min(p.limit-len(list.GetRecordings()), resource.PageSize)),
			PageToken: token, Cluster: p.cluster, Subject: p.subject,
		})
		if err != nil {
			return err
		}
		list.Recordings = append(list.Recordings, res.GetRecordings()...)
		if token = res.GetNextPageToken(); token == "" {
			break
		}
	}
	switch p.format {
	case app.FormatJSON, app.FormatYAML:
		return a.ShowPlain(p.format, list)
	case app.FormatTable, app.FormatWide:
	default:
		return fmt.Errorf("unknown form of output %q: known are table, wide, json, yaml", p.format)
	}
	if len(list.GetRecordings()) == 0 {
		a.Notef("no recordings that you may view\n")
		return nil
	}
	v := view.View{Now: a.Now(), Wide: p.format == app.FormatWide}
	t := v.NewTable([]string{"ID", "SUBJECT", "CLUSTER", "NAMESPACE", "POD", "BEGAN", "LASTED", "SIZE"}, "CONTAINER",
		"VERB", "INCOMPLETE")
	for _, r := range list.GetRecordings() {
		lasted := r.GetUpdateTime().AsTime().Sub(r.GetBeginTime().AsTime()).Round(time.Second).String()
		if !view.IsSet(r.GetEndTime()) {
			lasted += ", no end yet"
		}
		v.AddRow(t, []string{r.GetId(), r.GetSubject(), r.GetCluster(), r.GetNamespace(), r.GetPod(), v.AgoText(r.GetBeginTime()), lasted, table.FormatBytes(r.GetBytes())},
			r.GetContainer(), r.GetVerb(), r.GetIncomplete())
	}
	return t.Write(a.Stdout)
}

// readRecording calls take with each part of a recording.
func readRecording(
	ctx context.Context, h *hubclient.Hub, id string, take func([]byte) error,
) (*consolev1.Recording, error) {
	for after := int64(0); ; {
		call, cancel := context.WithTimeout(ctx, hubclient.CallTimeout)
		res, err := h.Recordings.ReadRecording(call, &consolev1.ReadRecordingRequest{Id: id, After: after})
		cancel()
		if err != nil {
			return nil, err
		}
		if err := take(res.GetData()); err != nil {
			return nil, err
		}
		if after = res.GetNext(); after == 0 {
			return res.GetRecording(), nil
		}
	}
}

func exportRecording(ctx context.Context, a *app.App, h *hubclient.Hub, id, to string) error {
	var text bytes.Buffer // a recording has 64 MiB at most
	r, err := readRecording(ctx, h, id, func(part []byte) error { text.Write(part); return nil })
	if err != nil {
		return err
	}
	noteIncomplete(a, r)
	return durable.WriteFile(to, text.Bytes(), 0o600)
}

func noteIncomplete(a *app.App, r *consolev1.Recording) {
	if r.GetIncomplete() != "" {
		a.Notef("the recording does not hold all that was shown: %s\n", table.CleanLine(r.GetIncomplete()))
	}
}

func playRecording(ctx context.Context, a *app.App, h *hubclient.Hub, id string, p replay) error {
	reader, writer := io.Pipe()
	var r *consolev1.Recording
	read := make(chan error, 1)
	go func() {
		var err error
		r, err = readRecording(ctx, h, id, func(part []byte) error { _, err := writer.Write(part); return err })
		_ = writer.CloseWithError(err) // nil: the end
		read <- err
	}()
	err := p.playRecord(ctx, reader, a.Stdout)
	_ = reader.CloseWithError(err)
	if failed := <-read; failed != nil {
		return failed
	}
	noteIncomplete(a, r)
	return err
}

// playRecord writes what was shown at the pace at which it was.
func (p replay) playRecord(ctx context.Context, from io.Reader, to io.Writer) error {
	const maxLine = 4 << 20
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxLine)
	last := 0.0
	for head := true; lines.Scan(); head = false {
		if head {
			continue // the first line is for a player that draws the screen
		}
		var event [3]json.RawMessage
		var at float64
		var kind, text string
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			return fmt.Errorf("read recording: %w", err)
		}
		if err := errors.Join(json.Unmarshal(event[0], &at), json.Unmarshal(event[1], &kind), json.Unmarshal(event[2], &text)); err != nil {
			return fmt.Errorf("read recording: %w", err)
		}
		pause := time.Duration((at - last) * float64(time.Second))
		if last = at; p.idle > 0 {
			pause = min(pause, p.idle)
		}
		if !retry.Sleep(ctx, time.Duration(float64(pause)/p.speed)) {
			return ctx.Err()
		}
		if kind != "o" {
			continue
		}
		if _, err := io.WriteString(to, text); err != nil {
			return err
		}
	}
	return lines.Err()
}
