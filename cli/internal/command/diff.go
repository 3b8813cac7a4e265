package command

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"

	"fairlead.dev/cli/internal/hub"
	"fairlead.dev/cli/internal/table"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/flags"
	"fairlead.dev/platform/manifest"
)

// differs is the exit code of a diff that is not empty.
const differs = 2

func (a *app) diff() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "diff service NAME",
		Short: "Show what a sync of a service would change in its cluster",
		Long: `Show what a sync of a service would change in its cluster.

The agent finds out now, by dry runs of the API server, whatever the mode of the service is: what waits, and what others
have changed. It reads objects with the rights that you have in the cluster. Where the cluster can't be asked, or you may not
read there, the comparison that the agent made last is shown, with its age. Values of Secrets are left out, and so are the
names of Secrets that you may not read. + is made, ~ is
changed, - is removed, -/+ is deleted and made anew, ! is refused by the API server. The exit code is 0 if there is no
difference, and 2 if there is one.`,
		Example: `  fairlead diff service shop
  fairlead hold service shop --mode dry-run --reason "a look first" --wait && fairlead diff service shop`,
		Args: wants(2, 2),
	}
	cmd.Flags().StringVarP(&format, "output", "o", formatTable, "form of the output: table, json or yaml")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if k, err := findKind(args[0]); err != nil || k.kind != manifest.Service {
			return usage(cmd)
		}
		if err := checkPlainFormat(format); err != nil {
			return err
		}
		return a.hubCommand(func(ctx context.Context, h *hub.Hub, args []string) error {
			return a.showDiff(ctx, h, args[0], format)
		})(cmd, args[1:])
	}
	return cmd
}

func (a *app) showDiff(ctx context.Context, h *hub.Hub, name, format string) error {
	got, err := a.compare(ctx, h, name)
	if err != nil {
		return err
	}
	if format != formatTable {
		err = a.showPlain(format, got)
	} else {
		err = a.printf("%s", diffText(got.GetDiff()))
	}
	if err != nil {
		return err
	}
	if d := got.GetDiff(); d.GetCreated()+d.GetChanged()+d.GetRemoved() > 0 {
		return flags.Exit(differs)
	}
	return nil
}

// compare is what a sync would change: as the agent finds it now, through the tunnel, or else what it told last.
func (a *app) compare(ctx context.Context, h *hub.Hub, name string) (*consolev1.GetServiceDiffResponse, error) {
	got, err := h.Services.GetService(ctx, &consolev1.GetServiceRequest{Name: name})
	if err != nil {
		return nil, err
	}
	service := got.GetService()
	if service.GetSpec().GetCatalog() {
		return nil, fmt.Errorf("service %q goes to the catalog and not to a cluster: `fairlead apply -f FILE --dry-run` compares files with the catalog", name)
	}
	now, why := a.compareNow(ctx, h, service)
	if why == nil {
		fmt.Fprintf(a.Stderr, "compared with cluster %s now\n", service.GetSpec().GetCluster())
		return now, nil
	}
	last, err := h.Objects.GetServiceDiff(ctx, &consolev1.GetServiceDiffRequest{Name: name})
	if err != nil {
		return nil, fmt.Errorf("service %q: the cluster can't be asked now: %w; and the hub has no comparison of before", name, why)
	}
	fmt.Fprintf(a.Stderr, "the cluster can't be asked now: %v\nfound out %s ago\n", why, table.Age(a.Now(), last.GetObservedTime().AsTime()))
	if service.GetStatus().GetHub().GetDigest() != last.GetDigest() {
		fmt.Fprintln(a.Stderr, "something else is handed out by now: this is about what was before")
	}
	return last, nil
}

const (
	// comparePatience is how long an agent may take to hear of what the hub hands out, and to render it.
	comparePatience = 15 * time.Second
	// compareBytes bounds an answer: the contract allows half a MiB of changes.
	compareBytes = 4 << 20
)

// compareNow has the agent of a service compare it with the cluster.
func (a *app) compareNow(ctx context.Context, h *hub.Hub, service *consolev1.Service) (*consolev1.GetServiceDiffResponse, error) {
	if len(h.Context.Endpoints.Tunnels) == 0 {
		return nil, errors.New("the hub did not say where its tunnels are")
	}
	url := fmt.Sprintf("%s/clusters/%s/fairlead/v1/services/%s/diff", h.Context.Endpoints.Tunnels[0], service.GetSpec().GetCluster(), service.GetMetadata().GetName())
	pause := time.NewTicker(waitPause)
	defer pause.Stop()
	for deadline := a.Now().Add(comparePatience); ; {
		detail, again, err := askAgent(ctx, h.HTTP, url)
		late := a.Now().After(deadline)
		switch {
		case err == nil && (detail.GetDigest() == service.GetStatus().GetHub().GetDigest() || late):
			return &consolev1.GetServiceDiffResponse{Diff: detail.GetDiff(), Digest: detail.GetDigest(), ObservedTime: detail.GetObservedTime()}, nil
		case err != nil && (!again || late):
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-pause.C:
		}
		now, err := h.Services.GetService(ctx, &consolev1.GetServiceRequest{Name: service.GetMetadata().GetName()})
		if err != nil {
			return nil, err
		}
		service = now.GetService()
	}
}

// askAgent asks once. again: it may answer in a moment.
func askAgent(ctx context.Context, client *http.Client, url string) (detail *deliveryv1.ServiceDetail, again bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, false, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, compareBytes))
	if err != nil {
		return nil, false, err
	}
	if resp.StatusCode != http.StatusOK {
		var status struct {
			Message string `json:"message"`
		}
		_ = json.Unmarshal(body, &status) // what is no Status has no message
		return nil, resp.StatusCode == http.StatusServiceUnavailable, errors.New(cmp.Or(status.Message, resp.Status))
	}
	detail = &deliveryv1.ServiceDetail{}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(body, detail); err != nil || detail.GetDiff() == nil {
		return nil, false, errors.New("its agent is of an earlier version")
	}
	return detail, false, nil
}

// diffText is a diff for people.
func diffText(d *deliveryv1.Diff) string {
	signs := map[deliveryv1.Change]string{
		deliveryv1.Change_CHANGE_CREATE: "+", deliveryv1.Change_CHANGE_UPDATE: "~", deliveryv1.Change_CHANGE_REMOVE: "-",
		deliveryv1.Change_CHANGE_RECREATE: "-/+", deliveryv1.Change_CHANGE_REFUSED: "!",
	}
	var b strings.Builder
	for _, o := range d.GetObjects() {
		fmt.Fprintf(&b, "%s %s", signs[o.GetChange()], objectTitle(o.GetKind(), o.GetNamespace(), o.GetName()))
		if o.GetMessage() != "" {
			b.WriteString(": " + table.Clean(o.GetMessage()))
		}
		b.WriteString("\n")
		for _, f := range o.GetFields() {
			fmt.Fprintf(&b, "    %s: %s", table.Clean(f.GetPointer()), values(f))
			if f.GetManager() != "" && f.GetManager() != "fairlead" {
				fmt.Fprintf(&b, "  (set by %s)", table.Clean(f.GetManager()))
			}
			b.WriteString("\n")
		}
	}
	fmt.Fprintf(&b, "%d created, %d changed, %d removed, %d unchanged\n", d.GetCreated(), d.GetChanged(), d.GetRemoved(), d.GetUnchanged())
	return b.String()
}

func values(f *deliveryv1.FieldDiff) string {
	live, wanted := table.Clean(f.GetLive()), table.Clean(f.GetWanted())
	switch {
	case live == "" && wanted == "":
		return "changes (not shown)"
	case live == "":
		return "-> " + wanted
	case wanted == "":
		return live + " -> (gone)"
	}
	return live + " -> " + wanted
}

func objectTitle(kind, namespace, name string) string {
	if name == "" { // the caller may not read it
		return table.Clean(kind)
	}
	if namespace != "" {
		name = namespace + "/" + name
	}
	return table.Clean(kind + " " + name)
}
