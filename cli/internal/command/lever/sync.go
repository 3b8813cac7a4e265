// Package lever has the commands that steer how services are synced, such as hold, pin, sync and freeze, and those that
// wait for it.
package lever

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/resource"
	"fairlead.dev/cli/internal/table"
	"fairlead.dev/cli/internal/trail"
	"fairlead.dev/cli/internal/view"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	gitcachev1 "fairlead.dev/gen/fairlead/gitcache/v1"
	"fairlead.dev/platform/catalog"
	"fairlead.dev/platform/catalogyaml"
)

// Commands are the verbs that change how a service is synced, and nothing else, and wait.
func Commands(a *app.App) []*cobra.Command {
	return []*cobra.Command{
		holdCommand(a), resumeCommand(a), pinCommand(a), syncCommand(a),
		freezeCommand(a), unfreezeCommand(a), acknowledgeCommand(a),
		silenceCommand(a), unsilenceCommand(a), testCommand(a),
		confirmCommand(a), historyCommand(a), rollbackCommand(a), waitCommand(a),
	}
}

// syncModes are those that hold takes, by name.
func syncModes() map[string]deliveryv1.SyncMode {
	return map[string]deliveryv1.SyncMode{
		"hold":    deliveryv1.SyncMode_SYNC_MODE_HOLD,
		"suspend": deliveryv1.SyncMode_SYNC_MODE_SUSPEND, "dry-run": deliveryv1.SyncMode_SYNC_MODE_DRY_RUN,
		"manual": deliveryv1.SyncMode_SYNC_MODE_MANUAL,
	}
}

func holdCommand(a *app.App) *cobra.Command {
	var mode, reason string
	cmd := leverCommand("hold service NAME --reason TEXT", "Keep what a service has applied, whatever is pushed", `Let a service apply nothing new, whatever is pushed.

Changes of others in the cluster are still undone. With --mode suspend the agent touches nothing at all; with --mode dry-run
it applies nothing and reports what would change: see "fairlead diff service NAME"; with --mode manual "fairlead sync
service NAME" applies what waits. The reason is shown to everybody who wonders why nothing happens. "fairlead resume service
NAME" ends a hold; with --for or --until it also ends by itself. "fairlead apply" does not end it, unless the file says
something new of the mode.

With --filter, --cluster or --global, or the name of a global service, several services are held at once: the command shows
them, and asks on a terminal; scripts say --yes, and --dry-run only shows them.`, `  fairlead hold service shop --reason "incident 7"
  fairlead hold service shop --reason "the sale" --for 2h
  fairlead hold service shop --mode dry-run --reason "before the migration"
  fairlead hold services --filter 'labels.env = prod' --reason "freeze" --until 2026-01-07T06:00:00Z
  fairlead hold services --cluster edge-1 --reason "the disks are replaced"
  fairlead hold globalservice logs --reason "incident 8"`, app.WantArgs(1, 2))
	cmd.Flags().StringVar(&mode, "mode", "hold", "hold, suspend, dry-run or manual")
	cmd.Flags().StringVar(&reason, "reason", "", "why, for everybody to see")
	ends := endFlags(a, cmd)
	return pullMany(a, cmd, "hold", nil, func(ctx context.Context, h *hubclient.Hub, args []string) (*consolev1.Service, error) {
		chosen, ok := syncModes()[mode]
		until, err := ends.endTime()
		switch {
		case err != nil:
			return nil, err
		case !ok:
			return nil, fmt.Errorf("unknown mode %q: known are hold, suspend, dry-run and manual", mode)
		case reason == "":
			return nil, fmt.Errorf("--reason is missing: say to others why %s stands still", args[0])
		}
		out, err := h.Levers.HoldService(ctx, &consolev1.HoldServiceRequest{Name: args[0], Mode: chosen, Reason: reason, UntilTime: until})
		return out.GetService(), err
	})
}

func resumeCommand(a *app.App) *cobra.Command {
	cmd := leverCommand("resume service NAME", "End a hold: apply what is pushed", `End a hold: apply what is pushed. A pin stays.

With --filter, --cluster or --global, or the name of a global service, all of these services that are held are resumed.`,
		`  fairlead resume service shop --wait
  fairlead resume services --filter 'labels.env = prod'
  fairlead resume globalservice logs`, app.WantArgs(1, 2))
	running := func(s *consolev1.Service) bool { return view.ModeWord(s.GetSpec().GetSync().GetMode()) == "" }
	return pullMany(a, cmd, "resume", running, func(ctx context.Context, h *hubclient.Hub, args []string) (*consolev1.Service, error) {
		out, err := h.Levers.ResumeService(ctx, &consolev1.ResumeServiceRequest{Name: args[0]})
		if s := out.GetService(); s.GetSpec().GetSync().GetPin() != "" {
			stays := "pin"
			if s.GetLevers().GetPin().GetDeployment() > 0 {
				stays = "rollback"
			}
			a.Notef("the %s of service %q stays: `fairlead pin service %s --release` ends it\n", stays, args[0], args[0])
		}
		return out.GetService(), err
	})
}

func pinCommand(a *app.App) *cobra.Command {
	var release, untilNext bool
	var reason string
	cmd := leverCommand("pin service NAME [COMMIT]", "Deliver one commit, wherever the ref points", `Deliver one commit, wherever the ref points: COMMIT (7 letters of its id or more, a branch or refs/tags/TAG; a branch that
moves later moves no pin), or else the commit that is applied now. The pin stays until "fairlead pin service NAME
--release"; with --until-next only until the ref points to another commit than now, which is then delivered; with --for or
--until until that time. --release also ends a rollback.`, `  fairlead pin service shop --reason "2.0 is broken"
  fairlead pin service shop --until-next
  fairlead pin service shop 3f1c0d2e9b7a4c5d6e8f9012a3b4c5d6e7f80912 --wait
  fairlead pin service shop --release`, app.WantArgs(2, 3))
	cmd.Flags().BoolVar(&release, "release", false, "follow the ref again")
	cmd.Flags().BoolVar(&untilNext, "until-next", false, "only until the ref points to another commit than now")
	cmd.MarkFlagsMutuallyExclusive("release", "until-next")
	cmd.Flags().StringVar(&reason, "reason", "", "why, for everybody to see")
	ends := endFlags(a, cmd)
	return pullCommand(a, cmd, func(ctx context.Context, h *hubclient.Hub, args []string) (*consolev1.Service, error) {
		commit := ""
		until, err := ends.endTime()
		switch {
		case err != nil:
			return nil, err
		case release && until != nil:
			return nil, errors.New("--release ends the pin now: leave out --for and --until")
		case release && len(args) > 1:
			return nil, fmt.Errorf("--release and a commit don't go together")
		case len(args) > 1:
			var err error
			if commit, err = fullCommit(ctx, h, args[0], args[1]); err != nil {
				return nil, err
			}
		case !release:
			now, err := h.Services.GetService(ctx, &consolev1.GetServiceRequest{Name: args[0]})
			if err != nil {
				return nil, err
			}
			if commit = view.AppliedCommit(now.GetService().GetStatus().GetCluster().GetReport()); commit == "" {
				return nil, fmt.Errorf("nothing is applied of service %q yet: name a commit", args[0])
			}
		}
		out, err := h.Levers.PinService(ctx, &consolev1.PinServiceRequest{
			Name: args[0], Commit: commit, Reason: reason,
			UntilNext: untilNext, UntilTime: until,
		})
		return out.GetService(), err
	})
}

// fullCommit is the id of a commit of a service's source, which people name by its beginning, or by a ref.
func fullCommit(ctx context.Context, h *hubclient.Hub, service, name string) (string, error) {
	if _, err := hex.DecodeString(name); err == nil && (len(name) == 40 || len(name) == 64) {
		return strings.ToLower(name), nil
	}
	now, err := h.Services.GetService(ctx, &consolev1.GetServiceRequest{Name: service})
	if err != nil {
		return "", err
	}
	found, err := app.AskGitcaches(ctx, h, hubclient.CallTimeout, func(ctx context.Context, g hubclient.Gitcache) (*gitcachev1.ListCommitsResponse, error) {
		return g.Sources.ListCommits(ctx,
			&gitcachev1.ListCommitsRequest{
				Source: catalog.SourceOf(now.GetService().GetSpec()), Revision: name, PageSize: 1,
			})
	})
	if err != nil {
		return "", err
	}
	if len(found.GetCommits()) == 0 {
		return "", fmt.Errorf("source %q has no commit %q", catalog.SourceOf(now.GetService().GetSpec()), name)
	}
	return found.GetCommits()[0].GetCommit(), nil
}

func syncCommand(a *app.App) *cobra.Command {
	var override bool
	var only []string
	cmd := leverCommand("sync service NAME", "Render and compare a service anew, and apply it in manual mode", `Render a service again and compare all of it with the cluster, whatever the agent remembers.
Daily work needs no sync: the agent applies what is pushed and undoes what others change, by itself. For a service in manual
mode the agent applies the content that the hub has when the agent hears of the sync; later content waits for the next one.

While windows or a freeze close the service, a sync is refused, unless all of these windows have manualSync. --override lets
it through, once, for the content that the hub has at that moment, and for an hour at most; it takes the right to edit what
closes the service, or your name among the overriders of its windows. With --only the named objects are applied and no
others: nothing is removed, and no hook runs. A name that the service is known not to have is refused; a name that its agent
does not find is a problem of the sync (--wait fails), and the service stays as healthy as it was.`,
		`  fairlead sync service shop --wait
  fairlead sync service shop --override
  fairlead sync service shop --only Deployment/web --only ConfigMap/web
  fairlead sync services --cluster edge-1`, app.WantArgs(1, 2))
	cmd.Flags().BoolVar(&override, "override", false, "also while windows or a freeze close the service")
	cmd.Flags().StringArrayVar(&only, "only", nil,
		"apply only this object, as `KIND/NAME` or KIND/NAMESPACE/NAME; may be repeated")
	return pullMany(a, cmd, "sync", nil, func(ctx context.Context, h *hubclient.Hub, args []string) (*consolev1.Service, error) {
		out, err := h.Levers.RequestSync(ctx, &consolev1.RequestSyncRequest{Name: args[0], Override: override, Only: only})
		if err == nil && out.GetService().GetStatus().GetHub().GetDigest() == "" {
			a.Notef("nothing is handed out of service %q yet, so nothing is synced: "+
				"`fairlead trace service %s` says why\n", args[0], args[0])
		}
		return out.GetService(), err
	})
}

func confirmCommand(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "confirm prune SERVICE GUARD",
		Short: "Let a removal go on that looked like an accident",
		Long: `Confirm a removal that looked like an accident.

A push that would remove more than half of a service's objects (spec.sync.prune.maxPercent) waits for a person. The
service's message names the guard, which stands for exactly these objects; another push has another guard. "fairlead trace"
lists the first 20 of the objects.`,
		Example: `  fairlead trace service shop
  fairlead confirm prune shop 5be1f0c2a9d34417`,
		Args: app.WantArgs(3, 3),
	}
	cmd.AddCommand(confirmGlobal(a), confirmRemovals(a))
	wait := waitFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if args[0] != "prune" {
			return app.UsageError(cmd)
		}
		return changeSync(a, wait, func(ctx context.Context, h *hubclient.Hub, args []string) (*consolev1.Service, error) {
			out, err := h.Levers.ConfirmPrune(ctx, &consolev1.ConfirmPruneRequest{Name: args[0], Guard: args[1]})
			return out.GetService(), err
		})(cmd, args[1:])
	}
	return cmd
}

// endings says when a lever ends by itself.
type endings struct {
	app   *app.App
	lasts time.Duration
	until string
	cmd   *cobra.Command
}

func endFlags(a *app.App, cmd *cobra.Command) *endings {
	e := &endings{app: a, cmd: cmd}
	cmd.Flags().DurationVar(&e.lasts, "for", 0, "end by itself after this long, such as 2h")
	cmd.Flags().StringVar(&e.until, "until", "", "end by itself at this `time`, such as 2026-01-31T12:00:00Z")
	cmd.MarkFlagsMutuallyExclusive("for", "until")
	return e
}

// endTime is nil for no end.
func (e *endings) endTime() (*timestamppb.Timestamp, error) {
	switch {
	case e.cmd.Flags().Changed("for") && e.lasts <= 0:
		return nil, errors.New("--for must be more than 0s")
	case e.cmd.Flags().Changed("for"):
		return timestamppb.New(e.app.Now().Add(e.lasts)), nil
	case e.until == "":
		return nil, nil
	}
	at, err := time.Parse(time.RFC3339, e.until)
	if err != nil {
		return nil, fmt.Errorf("--until: %q is no time: write it like 2026-01-31T12:00:00Z", e.until)
	}
	return timestamppb.New(at), nil
}

// waiting says whether a command waits for the cluster, and for how long at most.
type waiting struct {
	wait    bool
	timeout time.Duration
}

func waitFlags(cmd *cobra.Command) *waiting {
	w := &waiting{}
	cmd.Flags().BoolVar(&w.wait, "wait", false, "until the cluster has done it")
	cmd.Flags().DurationVar(&w.timeout, "timeout", app.WaitPatience, "with --wait: how long at most")
	return w
}

// leverCommand is a command over one service; pull gives it what it does.
func leverCommand(use, short, long, example string, args cobra.PositionalArgs) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Long: long, Example: example, Args: args}
}

type puller func(ctx context.Context, h *hubclient.Hub, args []string) (*consolev1.Service, error)

func pullCommand(a *app.App, cmd *cobra.Command, do puller) *cobra.Command {
	wait := waitFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if k, err := resource.FindKind(args[0]); err != nil || k.ID != catalogyaml.Service {
			return app.UsageError(cmd)
		}
		return changeSync(a, wait, do)(cmd, args[1:])
	}
	return cmd
}

// pullMany is a command that may be about several services. skip leaves those out of which there is nothing to pull.
func pullMany(
	a *app.App, cmd *cobra.Command, verb string, skip func(*consolev1.Service) bool, do puller,
) *cobra.Command {
	wait, several := waitFlags(cmd), manyFlags(a, cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if k, err := resource.FindKind(args[0]); err != nil ||
			k.ID != catalogyaml.Service && k.ID != catalogyaml.Global {
			return app.UsageError(cmd)
		}
		all, err := several.isAsked(args)
		if err != nil {
			return err
		}
		if !all {
			if k, _ := resource.FindKind(args[0]); k.ID == catalogyaml.Global {
				return app.UsageError(cmd)
			}
			return changeSync(a, wait, do)(cmd, args[1:])
		}
		return a.HubCommand(func(ctx context.Context, h *hubclient.Hub, _ []string) error {
			return several.pullLevers(ctx, h, verb, skip, wait, do)
		})(cmd, nil)
	}
	return cmd
}

// changeSync pulls a lever and says what the service is like then.
func changeSync(a *app.App, wait *waiting, do puller) func(*cobra.Command, []string) error {
	return a.HubCommand(func(ctx context.Context, h *hubclient.Hub, args []string) error {
		return changeOne(ctx, a, h, wait, do, args)
	})
}

func changeOne(ctx context.Context, a *app.App, h *hubclient.Hub, wait *waiting, do puller, args []string) error {
	before, err := h.Services.GetService(ctx, &consolev1.GetServiceRequest{Name: args[0]})
	if err != nil {
		return err
	}
	service, err := do(ctx, h, args)
	if err != nil {
		return err
	}
	end := trail.EndOfClusterHold(args[0], before.GetService().GetStatus().GetCluster().GetReport().GetMessage())
	if end != "" {
		a.Notef("the annotation on its inventory still holds service %q: %s\n", args[0], end)
	}
	if wait.wait {
		if service, err = awaitSettled(ctx, a, h, wait.timeout, before.GetService(), service); err != nil {
			return err
		}
	}
	return a.Printf("service/%s %s\n", args[0], describeSync(service, wait.wait))
}

// describeSync returns a service's sync in words.
func describeSync(s *consolev1.Service, waited bool) string {
	sync, words := s.GetSpec().GetSync(), "follows "+view.FollowedRef(s.GetSpec())
	if pin := sync.GetPin(); pin != "" {
		words = "is pinned to " + view.ShortHash(pin)
		if n := s.GetLevers().GetPin().GetDeployment(); n > 0 {
			words = fmt.Sprintf("is rolled back to deployment %d (%s)", n, view.ShortHash(pin))
		}
		if s.GetSpec().GetUnpinAfter() != "" {
			words += " until " + view.FollowedRef(s.GetSpec()) + " moves on"
		}
	}
	for name, mode := range syncModes() {
		if sync.GetMode() == mode {
			words += ", mode " + name
		}
	}
	words += view.FormatReason(sync.GetReason())
	for _, l := range []*consolev1.Lever{s.GetLevers().GetMode(), s.GetLevers().GetPin()} {
		if view.IsSet(l.GetUntilTime()) {
			words += " until " + l.GetUntilTime().AsTime().Local().Format(time.RFC3339)
		}
	}
	if waited {
		words += ": " + view.StateName(s.GetStatus().GetState())
		if m := s.GetStatus().GetStateMessage(); m != "" {
			words += ". " + table.CleanLine(m)
		}
	}
	return words
}

// awaitSettled waits until the cluster has done what was asked for.
func awaitSettled(
	ctx context.Context, a *app.App, h *hubclient.Hub, patience time.Duration, before, asked *consolev1.Service,
) (*consolev1.Service, error) {
	caller := ctx
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	pause := time.NewTicker(app.WaitPause)
	defer pause.Stop()
	outage := a.NewOutage()
	for last := asked; ; {
		if isDone(before, asked, last) {
			return last, cameAbout(before, asked, last)
		}
		select {
		case <-ctx.Done():
			if err := caller.Err(); err != nil {
				return nil, fmt.Errorf("service %q goes on without this command: %w", last.GetMetadata().GetName(), err)
			}
			return nil, fmt.Errorf("service %q is not there yet, after %s: %s", last.GetMetadata().GetName(), patience, last.GetStatus().GetStateMessage())
		case <-pause.C:
		}
		now, err := h.Services.GetService(ctx, &consolev1.GetServiceRequest{Name: asked.GetMetadata().GetName()})
		if err != nil {
			if outage.WaitOut(ctx, err) || ctx.Err() != nil {
				continue
			}
			return nil, err
		}
		outage.End()
		last = now.GetService()
	}
}

// cameAbout is an error if the cluster is through with a service, and did not do what was asked for: a hold asks for
// nothing to be applied, all else does.
func cameAbout(before, asked, now *consolev1.Service) error {
	status, held := now.GetStatus(), standsStill(before, asked)
	if sync := asked.GetSpec().GetSync(); len(sync.GetRequestOnly()) > 0 &&
		!sync.GetRequestTime().AsTime().Equal(before.GetSpec().GetSync().GetRequestTime().AsTime()) {
		held = true // the rest of what waits goes on waiting
		if problem := status.GetCluster().GetReport().GetSyncProblem(); problem != "" {
			return fmt.Errorf("service %q: %s", now.GetMetadata().GetName(), problem)
		}
	}
	failed := status.GetState() == consolev1.ServiceState_SERVICE_STATE_FAILED
	switch status.GetCluster().GetReport().GetPhase() {
	case deliveryv1.Phase_PHASE_HELD, deliveryv1.Phase_PHASE_WAITING, deliveryv1.Phase_PHASE_DIFFERS:
		failed = failed || !held
	}
	if !failed {
		return nil
	}
	return fmt.Errorf("service %q: %s: %s", now.GetMetadata().GetName(), view.StateName(status.GetState()),
		status.GetStateMessage())
}

// standsStill tells whether a service is asked to apply nothing new: held, or in manual mode and not to be synced.
func standsStill(before, asked *consolev1.Service) bool {
	was, is := before.GetSpec().GetSync(), asked.GetSpec().GetSync()
	if is.GetMode() == deliveryv1.SyncMode_SYNC_MODE_MANUAL {
		return was.GetRequestTime().AsTime().Equal(is.GetRequestTime().AsTime())
	}
	return is.GetMode() > deliveryv1.SyncMode_SYNC_MODE_AUTO
}

// deliversSame says whether the cluster gets the same of two specs of a service: when a lever ends is the hub's.
func deliversSame(before, asked *consolev1.Service) bool {
	was, is := catalog.NewService(before), catalog.NewService(asked)
	return was.FolderID() == is.FolderID() && was.Options(nil) == is.Options(nil)
}

// isDone says whether the hub hands out what was asked for, and the cluster is through with it.
func isDone(before, asked, now *consolev1.Service) bool {
	hub, report := now.GetStatus().GetHub(), now.GetStatus().GetCluster().GetReport()
	was, is := before.GetSpec().GetSync(), asked.GetSpec().GetSync()
	switch {
	case now.GetStatus().GetState() == consolev1.ServiceState_SERVICE_STATE_PENDING: // as while a pin's commit is asked for
		return false
	case hub.GetDigest() == "" || report.GetDigest() != hub.GetDigest():
		return false
	case is.GetPin() != "" && hub.GetRevision().GetCommit() != is.GetPin():
		return false
	case is.GetPin() == "" && was.GetPin() != "" &&
		hub.GetRevision().GetCommit() != now.GetStatus().GetGit().GetRevision().GetCommit():
		return false
	case is.GetPin() == was.GetPin() && !deliversSame(before, asked) &&
		hub.GetDigest() == before.GetStatus().GetHub().GetDigest():
		return false
	}
	switch report.GetPhase() {
	case deliveryv1.Phase_PHASE_WAITING:
		return report.GetGuard() != nil || standsStill(before, asked) // else other services end it
	case deliveryv1.Phase_PHASE_UNSPECIFIED, deliveryv1.Phase_PHASE_APPLYING, deliveryv1.Phase_PHASE_PROGRESSING,
		deliveryv1.Phase_PHASE_REMOVED:
		return false
	}
	return true
}
