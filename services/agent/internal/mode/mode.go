// Package mode decides what may be done about a service: by its mode, by the annotation that holds it in
// the cluster, by windows, and by the services that it waits for. The package is pure: facts in, verdict out.
package mode

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/window"
)

// Facts is what a verdict is about.
type Facts struct {
	Sync *deliveryv1.SyncSpec
	// Held is the reason that the annotation of the inventory gives; nil: there is none.
	Held *string
	// Applied is the state that the cluster was brought to last; nothing has no Content. Wanted is what the
	// hub wants.
	Applied, Wanted State
	// Depends tells, per service that this one waits for, why it is not ready. Services that are ready are left out.
	Depends map[string]string
	// Manual: what is new waits for a person's sync. The mode of Sync does not count then.
	Manual bool
	// Windows say whether what is new may be applied now.
	Windows window.State
	// Asked: a person asked for a sync of exactly what is wanted, and it was not served yet. Override: also while
	// windows are closed.
	Asked, Override bool
	// Begun: what is wanted was let through, and parts of it are in the cluster.
	Begun bool
}

// State is what objects were, or would be, made from.
type State struct{ Content, Commit string }

// Verdict is what may be done.
type Verdict struct {
	// Apply: bring the cluster to what is wanted, and prune.
	Apply bool
	// Repair: undo what others change of what is applied.
	Repair bool
	// Diff: tell what Apply would change.
	Diff bool
	// Phase to report, with Text; PHASE_UNSPECIFIED: that of the objects' health, and Text is added to it.
	Phase deliveryv1.Phase
	Text  string
}

// Decide gives the verdict.
func Decide(f Facts) Verdict {
	news := f.Applied.Content == "" || f.Applied.Content != f.Wanted.Content
	through := f.Asked || f.Begun
	switch mode := f.Sync.GetMode(); {
	case f.Held != nil && f.Manual:
		return f.annotated(news)
	case f.Manual && news && !through:
		return f.held(news, "In manual mode"+because(f.Sync.GetReason())+": new content waits for a sync.", !f.Windows.Leaves)
	case f.Manual:
	case mode == deliveryv1.SyncMode_SYNC_MODE_DRY_RUN:
		return Verdict{Diff: true, Phase: deliveryv1.Phase_PHASE_DIFFERS, Text: "Nothing is applied, this is a dry run" + because(f.Sync.GetReason()) + "."}
	case mode == deliveryv1.SyncMode_SYNC_MODE_SUSPEND:
		return f.held(news, "Suspended"+because(f.Sync.GetReason())+": nothing is applied or repaired.", false)
	case mode == deliveryv1.SyncMode_SYNC_MODE_HOLD:
		return f.held(news, "Held"+because(f.Sync.GetReason())+".", !f.Windows.Leaves)
	case f.Held != nil:
		return f.annotated(news)
	}
	if w := f.Windows; w.Closed && !f.Begun && (!f.Asked || !w.Manual && !f.Override) {
		return f.held(news, w.Words(), !w.Leaves)
	}
	if news && len(f.Depends) > 0 {
		return Verdict{Repair: true, Diff: true, Phase: deliveryv1.Phase_PHASE_WAITING, Text: f.waits()}
	}
	return Verdict{Apply: true, Repair: true}
}

func (f Facts) annotated(news bool) Verdict {
	return f.held(news, "Held by the annotation fairlead.dev/hold in the cluster"+because(*f.Held)+".", !f.Windows.Leaves)
}

func (f Facts) held(news bool, why string, repair bool) Verdict {
	v := Verdict{Repair: repair, Diff: !repair, Text: why} // drift that stays is to be seen
	if news {
		v.Diff, v.Phase, v.Text = true, deliveryv1.Phase_PHASE_HELD, why+" "+f.appliedAndWaiting()
	}
	return v
}

// appliedAndWaiting says what is applied and what waits.
func (f Facts) appliedAndWaiting() string {
	waits := "something newer waits"
	if f.Wanted.Commit != "" && f.Wanted.Commit != f.Applied.Commit {
		waits = fmt.Sprintf("%.8s waits", f.Wanted.Commit)
	}
	if f.Applied.Content == "" {
		return "Nothing is applied yet; " + waits + "."
	}
	return fmt.Sprintf("%s stays applied; %s.", cmp.Or(fmt.Sprintf("%.8s", f.Applied.Commit), "What was applied"), waits)
}

// waits names the services that are waited for.
func (f Facts) waits() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(f.Depends)) {
		parts = append(parts, fmt.Sprintf("service %q, which %s", name, f.Depends[name]))
	}
	return "Waits for " + strings.Join(parts, ", and for ") + ". " + f.appliedAndWaiting()
}

func because(reason string) string {
	if reason = strings.TrimSuffix(strings.TrimSpace(reason), "."); reason == "" {
		return ""
	}
	return " (" + reason + ")"
}
