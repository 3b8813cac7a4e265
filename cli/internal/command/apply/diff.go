package apply

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/object"
	"fairlead.dev/cli/internal/resource"
	"fairlead.dev/cli/internal/table"
	"fairlead.dev/cli/internal/view"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/catalogyaml"
	"fairlead.dev/platform/flags"
	"fairlead.dev/platform/pathrules"
	"fairlead.dev/platform/plural"
	"fairlead.dev/platform/retry"
)

// differs is the exit code of a diff that is not empty.
const differs = 2

func diffCommand(a *app.App) *cobra.Command {
	var format string
	var other content
	cmd := &cobra.Command{
		Use:   "diff service NAME",
		Short: "Show what a sync of a service would change in its cluster",
		Long: `Show what a sync of a service would change in its cluster.

The agent compares now, by dry runs of the API server, whatever the mode of the service is: what waits, and what others
have changed. It reads objects with the rights that you have in the cluster. If the cluster can't be asked, or you may not
read there, the command shows the last comparison of the agent, with its age. Values of Secrets are left out, and so are the
names of Secrets that you may not read. + is made, ~ is changed, - is removed, -/+ is deleted and made anew, ! is refused by the API
server. The exit code is 0 if there is no difference, 2 if there is one, and 1 after an error.

With --from the service's folder in a working tree on this machine takes the place of the commit. It is sent to the agent through the
tunnel (up to 32 MiB, without .git), rendered there with the options, the configuration and the bounds of the service, and compared by
dry runs. Nothing is applied or kept. Templates see placeholders in place of secrets, and what they look up in the cluster is read
with your rights. It needs a grant with role deployer for the cluster, and the right to edit the service. For a service with several
sources --from NAME=DIR gives the working tree of the source NAME, more than once if needed; the others are as the hub has them.

--ref does the same with another revision of the service's source: any branch, a tag (refs/tags/v1.4.0), a range (semver:^1.4), or a commit.
The hub fetches a revision that no service follows, by the rules of the source (signatures, submodules), and packs the folder as for a sync; nothing
else follows it. It needs the same rights as --from.`,
		Example: `  fairlead diff service shop
  fairlead diff service shop --from .
  fairlead diff service shop --from values=../config
  fairlead diff service shop --ref feature/new-cart
  fairlead diff service shop --ref refs/tags/v1.4.0
  fairlead hold service shop --mode dry-run --reason "a look" --wait && fairlead diff service shop`,
		Args: app.WantArgs(2, 2),
	}
	cmd.Flags().StringVarP(&format, "output", "o", app.FormatTable, "form of the output: table, json or yaml")
	cmd.Flags().StringArrayVar(&other.from, "from", nil,
		"compare the service's folder in this working tree: `DIR` is the root of its repository, or NAME=DIR of one of several sources")
	cmd.Flags().StringVar(&other.ref, "ref", "",
		"compare what the service would get from this `REF` of its source: a branch, a tag, a range or a commit")
	cmd.MarkFlagsMutuallyExclusive("from", "ref")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if k, err := resource.FindKind(args[0]); err != nil || k.ID != catalogyaml.Service {
			return app.UsageError(cmd)
		}
		if err := app.CheckPlainFormat(format); err != nil {
			return err
		}
		return a.HubCommand(func(ctx context.Context, h *hubclient.Hub, args []string) error {
			return showDiff(ctx, a, h, args[0], other, format)
		})(cmd, args[1:])
	}
	return cmd
}

func showDiff(ctx context.Context, a *app.App, h *hubclient.Hub, name string, other content, format string) error {
	got, err := compareService(ctx, a, h, name, other)
	if err != nil {
		return err
	}
	if format != app.FormatTable {
		err = a.ShowPlain(format, got)
	} else {
		err = a.Printf("%s", diffText(got.GetDiff()))
	}
	if err != nil {
		return err
	}
	if d := got.GetDiff(); d.GetCreated()+d.GetChanged()+d.GetRemoved() > 0 {
		return flags.Exit(differs)
	}
	return nil
}

// content takes the place of what the hub has for a service: working trees, or a ref. The zero value is what the hub
// has.
type content struct {
	from []string // DIR, or NAME=DIR for one of several sources
	ref  string
}

// compareService returns what a sync would change, or would with other content.
func compareService(
	ctx context.Context, a *app.App, h *hubclient.Hub, name string, other content,
) (*consolev1.GetServiceDiffResponse, error) {
	got, err := h.Services.GetService(ctx, &consolev1.GetServiceRequest{Name: name})
	if err != nil {
		return nil, err
	}
	service := got.GetService()
	if service.GetSpec().GetCatalog() {
		return nil, fmt.Errorf("service %q goes to the catalog and not to a cluster: `fairlead apply -f FILE --dry-run` compares files with the catalog", name)
	}
	switch {
	case len(other.from) > 0:
		return compareFrom(ctx, a, h, service, other.from)
	case other.ref != "":
		return compareRef(ctx, a, h, service, other.ref)
	}
	now, why := compareNow(ctx, a, h, service, nil)
	if why == nil {
		a.Notef("compared with cluster %s now\n", service.GetSpec().GetCluster())
		return now, nil
	}
	last, err := h.Objects.GetServiceDiff(ctx, &consolev1.GetServiceDiffRequest{Name: name})
	if err != nil {
		return nil, fmt.Errorf("service %q: the cluster can't be asked now: %w; and the hub has no comparison of before", name, why)
	}
	age := table.FormatAge(a.Now(), last.GetObservedTime().AsTime())
	a.Notef("the cluster can't be asked now: %v\nfound out %s ago\n", why, age)
	if service.GetStatus().GetHub().GetDigest() != last.GetDigest() {
		a.Notef("something else is handed out by now: this is about what was before\n")
	}
	return last, nil
}

// compareRef has the agent compare what the service would get from another revision of its source.
func compareRef(
	ctx context.Context, a *app.App, h *hubclient.Hub, service *consolev1.Service, ref string,
) (*consolev1.GetServiceDiffResponse, error) {
	file, err := os.CreateTemp("", "fairlead-diff-*.tar")
	if err != nil {
		return nil, fmt.Errorf("keep the folder at %s: %w", ref, err)
	}
	defer func() {
		_ = file.Close()
		_ = os.Remove(file.Name()) // the file is in the folder for temporary ones
	}()
	spec := service.GetSpec()
	what, err := downloadRevision(ctx, h, service.GetMetadata().GetName(), ref, file)
	if connect.CodeOf(err) == connect.CodeUnimplemented {
		return nil, errors.New("the gitcaches are of an earlier version, which packs no other revision: upgrade them, or check the revision out and use --from")
	}
	if err != nil {
		return nil, err
	}
	got, err := compareNow(ctx, a, h, service, io.NewSectionReader(file, 0, what.size))
	if err != nil {
		return nil, err
	}
	a.Notef("compared %s of source %s (%.8s), folder %q (%s), with cluster %s now\n", ref,
		view.SourcesOf(spec), what.commit, spec.GetPath(), plural.Of(what.files, "file"), spec.GetCluster())
	return got, nil
}

// compareFrom has the agent compare the service's folder of a working tree, or with the working trees of some of its
// sources.
func compareFrom(
	ctx context.Context, a *app.App, h *hubclient.Hub, service *consolev1.Service, from []string,
) (_ *consolev1.GetServiceDiffResponse, err error) {
	packed, err := os.CreateTemp("", "fairlead-diff-*.tar")
	if err != nil {
		return nil, fmt.Errorf("pack the folder: %w", err)
	}
	defer func() {
		_ = packed.Close()
		_ = os.Remove(packed.Name()) // the file is in the folder for temporary ones
	}()
	summary, err := packFrom(ctx, h, service, from, packed)
	if errors.Is(err, artifact.ErrRefused) {
		return nil, fmt.Errorf("the folder can't be sent: %w. At most %d MiB pass to an agent: leave files out with spec.ignore, or a %s in the folder", err, artifact.PreviewBytes>>20, pathrules.FileName)
	}
	if err != nil {
		return nil, fmt.Errorf("pack the folder: %w", err)
	}
	got, err := compareNow(ctx, a, h, service, io.NewSectionReader(packed, 0, summary.Size))
	if err != nil {
		return nil, err
	}
	a.Notef("compared %s, folder %q (%s), with cluster %s now\n", strings.Join(from, ", "),
		service.GetSpec().GetPath(), plural.Of(summary.Files, "file"), service.GetSpec().GetCluster())
	return got, nil
}

const (
	// comparePatience is how long an agent may take to hear of what the hub hands out, and to render it.
	comparePatience = 15 * time.Second
	// previewTimeout bounds one question with a folder, which is rendered for it: an agent renders one of them at a
	// time, for a minute at most.
	previewTimeout = 2 * time.Minute
	// previewPause is between two tries with a folder, which has up to artifact.PreviewBytes, at an agent that is busy.
	previewPause = 4 * time.Second
	// compareBytes bounds an answer: the contract allows half a MiB of changes.
	compareBytes = 4 << 20
)

// compareNow has the agent of a service compare it with the cluster; folder takes the place of what the hub has, unless
// it is nil.
func compareNow(
	ctx context.Context, a *app.App, h *hubclient.Hub, service *consolev1.Service, folder *io.SectionReader,
) (*consolev1.GetServiceDiffResponse, error) {
	if len(h.Context.Endpoints.Tunnels) == 0 {
		return nil, errors.New("the hub did not say where its tunnels are")
	}
	url := fmt.Sprintf("%s/clusters/%s/fairlead/v1/services/%s/diff", h.Context.Endpoints.Tunnels[0],
		service.GetSpec().GetCluster(), service.GetMetadata().GetName())
	every := app.WaitPause
	if folder != nil {
		every = previewPause
	}
	for deadline := a.Now().Add(comparePatience); ; {
		detail, again, why := askAgent(ctx, h.HTTP, url, folder)
		late := a.Now().After(deadline)
		switch {
		// A folder is the same whatever the hub hands out meanwhile, and is sent whole each time: its first comparison
		// is the one.
		case why == nil && (folder != nil || detail.GetDigest() == service.GetStatus().GetHub().GetDigest() || late):
			return &consolev1.GetServiceDiffResponse{
				Diff: detail.GetDiff(), Digest: detail.GetDigest(), ObservedTime: detail.GetObservedTime(),
			}, nil
		case why != nil && (!again || late):
			return nil, why
		}
		if !retry.Sleep(ctx, every) { // from the answer on: one with a folder takes longer
			return nil, ctx.Err()
		}
		now, err := h.Services.GetService(ctx, &consolev1.GetServiceRequest{Name: service.GetMetadata().GetName()})
		if err != nil {
			return nil, err
		}
		service = now.GetService()
		if failure := failureOf(service); folder == nil && why != nil && failure != "" {
			return nil, fmt.Errorf("%w: %s", why, failure)
		}
	}
}

// failureOf is why the agent could not apply what the hub hands out; empty: it has not said so.
func failureOf(s *consolev1.Service) string {
	r := s.GetStatus().GetCluster().GetReport()
	if r.GetPhase() != deliveryv1.Phase_PHASE_FAILED || r.GetDigest() != s.GetStatus().GetHub().GetDigest() {
		return ""
	}
	return r.GetMessage()
}

// notConnected is how a tunnel says that no agent of a cluster is there, which takes longer than a moment to change.
const notConnected = "is not connected"

// askAgent asks once. again: it may answer in a moment.
func askAgent(
	ctx context.Context, client *http.Client, url string, folder *io.SectionReader,
) (detail *deliveryv1.ServiceDetail, again bool, err error) {
	method, timeout, body := http.MethodGet, hubclient.CallTimeout, io.Reader(http.NoBody)
	if folder != nil {
		method, timeout, body = http.MethodPost, previewTimeout, io.NewSectionReader(folder, 0, folder.Size())
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return nil, false, err
	}
	if folder != nil {
		req.ContentLength = folder.Size()
		req.Header.Set("Content-Type", "application/x-tar")
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, compareBytes))
	if err != nil {
		return nil, false, err
	}
	switch {
	case folder != nil && resp.StatusCode == http.StatusMethodNotAllowed:
		return nil, false, errors.New("its agent is of an earlier version, which compares only what the hub has: upgrade it")
	case resp.StatusCode != http.StatusOK:
		var status struct {
			Message string `json:"message"`
		}
		_ = json.Unmarshal(answer, &status) // an answer that is no Status has no message
		again = resp.StatusCode == http.StatusServiceUnavailable && !strings.Contains(status.Message, notConnected)
		return nil, again, errors.New(cmp.Or(status.Message, resp.Status))
	}
	detail = &deliveryv1.ServiceDetail{}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(answer, detail); err != nil ||
		detail.GetDiff() == nil {
		return nil, false, errors.New("its agent is of an earlier version")
	}
	return detail, false, nil
}

// diffText is a diff for people.
func diffText(d *deliveryv1.Diff) string {
	signs := map[deliveryv1.Change]string{
		deliveryv1.Change_CHANGE_CREATE: "+",
		deliveryv1.Change_CHANGE_UPDATE: "~", deliveryv1.Change_CHANGE_REMOVE: "-",
		deliveryv1.Change_CHANGE_RECREATE: "-/+", deliveryv1.Change_CHANGE_REFUSED: "!",
	}
	var b strings.Builder
	for _, o := range d.GetObjects() {
		fmt.Fprintf(&b, "%s %s", signs[o.GetChange()], object.Title(o.GetKind(), o.GetNamespace(), o.GetName()))
		if o.GetMessage() != "" {
			b.WriteString(": " + table.CleanLine(o.GetMessage()))
		}
		b.WriteString("\n")
		for _, f := range o.GetFields() {
			fmt.Fprintf(&b, "    %s: %s", table.CleanLine(f.GetPointer()), formatValues(f))
			if f.GetManager() != "" && f.GetManager() != "fairlead" {
				fmt.Fprintf(&b, "  (set by %s)", table.CleanLine(f.GetManager()))
			}
			b.WriteString("\n")
		}
	}
	fmt.Fprintf(&b, "%d created, %d changed, %d removed, %d unchanged\n", d.GetCreated(), d.GetChanged(),
		d.GetRemoved(), d.GetUnchanged())
	return b.String()
}

func formatValues(f *deliveryv1.FieldDiff) string {
	live, wanted := table.CleanLine(f.GetLive()), table.CleanLine(f.GetWanted())
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
