package lever

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/probe"
	"fairlead.dev/cli/internal/resource"
	"fairlead.dev/cli/internal/table"
	"fairlead.dev/cli/internal/view"
	artifactv1 "fairlead.dev/gen/fairlead/artifact/v1"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	gitcachev1 "fairlead.dev/gen/fairlead/gitcache/v1"
	"fairlead.dev/platform/catalog"
	"fairlead.dev/platform/flags"
)

// Exit codes of wait; 1 is that of any other error.
const (
	waitFailed  = 3
	waitTooLong = 4
	waitsPerson = 5
)

// awaited is what a person waits for.
type awaited struct {
	app     *app.App
	hub     *hubclient.Hub
	commit  string
	healthy bool
	timeout time.Duration
	// behind says of commits whether the wanted one is behind them: that never changes.
	behind map[string]bool
}

func waitCommand(a *app.App) *cobra.Command {
	w := awaited{app: a, behind: map[string]bool{}}
	cmd := &cobra.Command{
		Use:   "wait service NAME",
		Short: "Wait until a commit of a service is applied, or healthy",
		Long: `Wait until a commit of a service is applied in its cluster, and with --healthy until its objects are healthy: for pipelines. Without --commit it is the
commit that the ref points to. A later commit that contains it counts, too.

The exit code says how it ended:
  0  it is applied, and healthy if that was asked for
  1  it could not be found out: a wrong name, no hub
  3  it failed: the manifests, the cluster's answer, or the health of the objects
  4  it took longer than --timeout
  5  it waits for a person: a hold, pin, manual mode, dry run, closed window, or removal to confirm`,
		Example: "  fairlead wait service/shop --commit \"$GIT_COMMIT\" --healthy --timeout 10m",
		Args:    app.WantArgs(2, 2),
	}
	cmd.Flags().StringVar(&w.commit, "commit", "", "the commit that is waited for, by 7 letters of its id or more")
	cmd.Flags().BoolVar(&w.healthy, "healthy", false, "until the objects are healthy, too")
	cmd.Flags().DurationVar(&w.timeout, "timeout", app.WaitPatience, "how long at most")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if k, err := resource.FindKind(args[0]); err != nil || k.ID != resource.ServiceKind().ID {
			return app.UsageError(cmd)
		}
		if w.commit != "" && !commitID.MatchString(w.commit) {
			return fmt.Errorf("--commit: %q must be 7 or more of the digits 0-9 and a-f", w.commit)
		}
		return a.HubCommand(func(ctx context.Context, h *hubclient.Hub, args []string) error {
			w.hub = h
			return w.waitUntil(ctx, args[0])
		})(cmd, args[1:])
	}
	return cmd
}

// waitUntil waits, and says how it ended.
func (w awaited) waitUntil(ctx context.Context, name string) error {
	patience, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	outage := w.app.NewOutage()
	pause := time.NewTicker(app.WaitPause)
	defer pause.Stop()
	said := ""
	var last *consolev1.Service // nil: the hub has not answered yet
	for {
		m, err := resource.ServiceKind().ReadOne(ctx, w.hub, name)
		switch {
		case err != nil && (last != nil || connect.IsWireError(err)) && outage.WaitOut(patience, err):
			continue // where no hub has ever answered, there may be none
		case err != nil && last != nil && patience.Err() != nil && ctx.Err() == nil:
			return w.lateError(last)
		case err != nil:
			return err
		}
		outage.End()
		last, _ = m.(*consolev1.Service)
		code, why := w.judgeService(ctx, last)
		if code == 0 {
			return w.app.Printf("service/%s: %s\n", name, why)
		}
		if why != said {
			said = why
			w.app.Notef("service/%s: %s\n", name, why)
		}
		switch {
		case code > 0:
			return flags.Exit(code)
		}
		select {
		case <-patience.Done():
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return w.lateError(last)
		case <-pause.C:
		}
	}
}

// lateError says what a service is like when the time is over.
func (w awaited) lateError(s *consolev1.Service) error {
	w.app.Notef("service/%s: not there after %s: `fairlead trace service %s` says where it stands\n",
		s.GetMetadata().GetName(), w.timeout, s.GetMetadata().GetName())
	switch s.GetStatus().GetState() {
	case consolev1.ServiceState_SERVICE_STATE_FAILED, consolev1.ServiceState_SERVICE_STATE_DEGRADED:
		return flags.Exit(waitFailed)
	}
	return flags.Exit(waitTooLong)
}

// judgeService says how far a service is: 0 it is there, -1 it goes on, or an exit code.
func (w awaited) judgeService(ctx context.Context, s *consolev1.Service) (code int, why string) {
	status := s.GetStatus()
	state := view.StateName(status.GetState())
	if message := status.GetStateMessage(); message != "" {
		state += ". " + table.CleanLine(message)
	}
	wanted := w.commit
	if wanted == "" {
		wanted = status.GetGit().GetRevision().GetCommit()
	}
	hub, report := status.GetHub(), status.GetCluster().GetReport()
	handed := wanted != "" && hub.GetDigest() != "" && w.hasCommit(ctx, s, hub.GetRevision().GetCommit(), wanted)
	applied := handed && report.GetAppliedDigest() == hub.GetDigest()
	switch {
	case applied && (!w.healthy || status.GetState() == consolev1.ServiceState_SERVICE_STATE_HEALTHY):
		if is := view.ShortHash(view.RunningCommit(status)) + " is applied"; !strings.Contains(state, is) {
			state = is + ". " + state
		}
		return 0, state
	case !applied && needsPerson(s):
		return waitsPerson, state
	case handed && report.GetDigest() == hub.GetDigest() &&
		status.GetState() == consolev1.ServiceState_SERVICE_STATE_FAILED:
		return waitFailed, state
	case !handed && status.GetState() == consolev1.ServiceState_SERVICE_STATE_FAILED &&
		w.hasCommit(ctx, s, status.GetGit().GetRevision().GetCommit(), wanted) && wanted != "":
		return waitFailed, state // the commit that Git has can't be handed out
	}
	return -1, state
}

// needsPerson tells a service that applies nothing new until a person, or a window, lets it.
func needsPerson(s *consolev1.Service) bool {
	switch s.GetStatus().GetState() {
	case consolev1.ServiceState_SERVICE_STATE_HELD, consolev1.ServiceState_SERVICE_STATE_DIFFERS:
		switch s.GetSpec().GetSync().GetMode() {
		case deliveryv1.SyncMode_SYNC_MODE_UNSPECIFIED, deliveryv1.SyncMode_SYNC_MODE_AUTO:
			return s.GetStatus().GetWindows().GetClosed() || !isOutdated(s)
		}
		return true
	case consolev1.ServiceState_SERVICE_STATE_WAITING: // else for another service
		return s.GetStatus().GetCluster().GetReport().GetGuard() != nil || s.GetStatus().GetWindows().GetClosed()
	}
	pin := s.GetSpec().GetSync().GetPin()
	return pin != "" && s.GetStatus().GetHub().GetRevision().GetCommit() == pin
}

// reportPatience is how long the cluster may take to report again after a change of the service. A change that is none
// to the agent, of a label for one, brings no report.
const reportPatience = time.Minute

// isOutdated tells that the cluster's report is of before the service's newest change: a hold of then may be over.
func isOutdated(s *consolev1.Service) bool {
	cluster, changed := s.GetStatus().GetCluster(), s.GetMetadata().GetUpdateTime().AsTime()
	return cluster.GetReceiveTime().AsTime().Before(changed) && time.Since(changed) < reportPatience ||
		cluster.GetReport().GetDigest() != s.GetStatus().GetHub().GetDigest()
}

// hasCommit tells whether a commit is the wanted one, or has it behind it.
func (w awaited) hasCommit(ctx context.Context, s *consolev1.Service, commit, wanted string) bool {
	if commit == "" || strings.HasPrefix(commit, strings.ToLower(wanted)) {
		return commit != ""
	}
	if known, ok := w.behind[commit]; ok {
		return known
	}
	const most = 200 // commits, of a ref that moves on while a pipeline waits
	found, err := app.AskGitcaches(ctx, w.hub, probe.CheckTimeout, func(ctx context.Context, g hubclient.Gitcache) (*gitcachev1.ListCommitsResponse, error) {
		return g.Sources.ListCommits(ctx,
			&gitcachev1.ListCommitsRequest{Source: catalog.SourceOf(s.GetSpec()), Revision: commit, PageSize: most})
	})
	if err != nil {
		return false
	}
	w.behind[commit] = slices.ContainsFunc(found.GetCommits(), func(c *artifactv1.Revision) bool {
		return strings.HasPrefix(c.GetCommit(), strings.ToLower(wanted)) || ofSource(s, c, wanted)
	})
	return w.behind[commit]
}

// ofSource tells whether a revision of several sources has a commit of one of them: its subject names the first letters
// of their ids.
func ofSource(s *consolev1.Service, revision *artifactv1.Revision, wanted string) bool {
	if len(s.GetSpec().GetSources()) == 0 {
		return false
	}
	return slices.ContainsFunc(strings.Fields(revision.GetSubject()), func(word string) bool {
		return len(word) == shownID && strings.HasPrefix(strings.ToLower(wanted)+word[min(len(wanted), shownID):], word)
	})
}

// shownID is how many letters of a commit's id gitcaches write into subjects.
const shownID = 8

// commitID is the beginning of a commit's id.
var commitID = regexp.MustCompile(`^[0-9a-fA-F]{7,64}$`)
