package mode_test

import (
	"testing"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/window"
	"fairlead.dev/services/agent/internal/mode"
)

func TestModes(t *testing.T) {
	t.Parallel()
	const (
		auto    = deliveryv1.SyncMode_SYNC_MODE_AUTO
		dryRun  = deliveryv1.SyncMode_SYNC_MODE_DRY_RUN
		hold    = deliveryv1.SyncMode_SYNC_MODE_HOLD
		suspend = deliveryv1.SyncMode_SYNC_MODE_SUSPEND

		health  = deliveryv1.Phase_PHASE_UNSPECIFIED
		held    = deliveryv1.Phase_PHASE_HELD
		waiting = deliveryv1.Phase_PHASE_WAITING
		differs = deliveryv1.Phase_PHASE_DIFFERS
	)
	spec := func(m deliveryv1.SyncMode, reason string) *deliveryv1.SyncSpec {
		return &deliveryv1.SyncSpec{Mode: m, Reason: reason}
	}
	var (
		nothing         = mode.State{}
		one             = mode.State{Content: "1", Commit: "1111111122"}
		two             = mode.State{Content: "2", Commit: "2222222233"}
		moved           = mode.State{Content: "1", Commit: "2222222233"} // a commit that did not touch the folder
		options         = mode.State{Content: "3", Commit: "1111111122"}
		incident, empty = "incident 7", ""
		db              = map[string]string{"db": "is not healthy"}
		frozen          = []window.Closing{{Kind: "project", Name: "shop", Freeze: &deliveryv1.Freeze{}}}
		shut            = window.State{Any: true, Closed: true, By: frozen}
		ajar            = window.State{Any: true, Closed: true, By: frozen, Manual: true}
		leaves          = func(s window.State) window.State { s.Leaves = true; return s }
	)
	for _, test := range []struct {
		name  string
		facts mode.Facts
		want  mode.Verdict
	}{
		{"the default", mode.Facts{Applied: one, Wanted: two}, mode.Verdict{Apply: true, Repair: true}},
		{
			"auto, nothing new",
			mode.Facts{Sync: spec(auto, ""), Applied: one, Wanted: one},
			mode.Verdict{Apply: true, Repair: true},
		},
		{"the first time", mode.Facts{Applied: nothing, Wanted: one}, mode.Verdict{Apply: true, Repair: true}},
		{
			"hold",
			mode.Facts{Sync: spec(hold, "incident 7."), Applied: one, Wanted: two},
			mode.Verdict{
				Repair: true, Diff: true, Phase: held,
				Text: "Held (incident 7). 11111111 stays applied; 22222222 waits.",
			},
		},
		{
			"hold, nothing new",
			mode.Facts{Sync: spec(hold, "incident 7"), Applied: one, Wanted: moved},
			mode.Verdict{Repair: true, Phase: health, Text: "Held (incident 7)."},
		},
		{
			"hold, other options",
			mode.Facts{Sync: spec(hold, ""), Applied: one, Wanted: options},
			mode.Verdict{
				Repair: true, Diff: true, Phase: held, Text: "Held. 11111111 stays applied; something newer waits.",
			},
		},
		{
			"hold before anything",
			mode.Facts{Sync: spec(hold, ""), Applied: nothing, Wanted: one},
			mode.Verdict{Repair: true, Diff: true, Phase: held, Text: "Held. Nothing is applied yet; 11111111 waits."},
		},
		{
			"annotation",
			mode.Facts{Held: &incident, Applied: one, Wanted: two},
			mode.Verdict{
				Repair: true, Diff: true, Phase: held,
				Text: "Held by the annotation fairlead.dev/hold in the cluster (incident 7). 11111111 stays applied; 22222222 waits.",
			},
		},
		{
			"annotation without a reason",
			mode.Facts{Held: &empty, Applied: one, Wanted: one},
			mode.Verdict{Repair: true, Phase: health, Text: "Held by the annotation fairlead.dev/hold in the cluster."},
		},
		{
			"suspend",
			mode.Facts{Sync: spec(suspend, "x"), Applied: one, Wanted: two},
			mode.Verdict{
				Diff: true, Phase: held,
				Text: "Suspended (x): nothing is applied or repaired. 11111111 stays applied; 22222222 waits.",
			},
		},
		{
			"suspend, nothing new, and held",
			mode.Facts{Sync: spec(suspend, ""), Held: &incident, Applied: one, Wanted: one},
			mode.Verdict{Diff: true, Phase: health, Text: "Suspended: nothing is applied or repaired."},
		},
		{
			"dry run",
			mode.Facts{Sync: spec(dryRun, "first look"), Held: &incident, Applied: one, Wanted: one, Depends: db},
			mode.Verdict{Diff: true, Phase: differs, Text: "Nothing is applied, this is a dry run (first look)."},
		},
		{
			"dependency",
			mode.Facts{Applied: one, Wanted: two, Depends: map[string]string{"db": "is not healthy", "api": "is held"}},
			mode.Verdict{
				Repair: true, Diff: true, Phase: waiting,
				Text: `Waits for service "api", which is held, and for service "db", which is not healthy. 11111111 stays applied; 22222222 waits.`,
			},
		},
		{
			"dependency, nothing new",
			mode.Facts{Applied: one, Wanted: one, Depends: db},
			mode.Verdict{Apply: true, Repair: true},
		},
		{
			"manual, something new",
			mode.Facts{Manual: true, Sync: spec(hold, ""), Applied: one, Wanted: two},
			mode.Verdict{
				Repair: true, Diff: true, Phase: held,
				Text: "In manual mode: new content waits for a sync. 11111111 stays applied; 22222222 waits.",
			},
		},
		{
			"manual, nothing new",
			mode.Facts{Manual: true, Sync: spec(hold, ""), Applied: one, Wanted: moved},
			mode.Verdict{Apply: true, Repair: true},
		},
		{
			"manual, a sync was asked for",
			mode.Facts{Manual: true, Asked: true, Sync: spec(hold, ""), Applied: one, Wanted: two},
			mode.Verdict{Apply: true, Repair: true},
		},
		{
			"manual, it goes on",
			mode.Facts{Manual: true, Begun: true, Sync: spec(hold, ""), Applied: one, Wanted: two},
			mode.Verdict{Apply: true, Repair: true},
		},
		{
			"manual and held in the cluster",
			mode.Facts{Manual: true, Asked: true, Held: &empty, Sync: spec(hold, ""), Applied: one, Wanted: one},
			mode.Verdict{Repair: true, Text: "Held by the annotation fairlead.dev/hold in the cluster."},
		},
		{
			"a closed window",
			mode.Facts{Windows: shut, Applied: one, Wanted: two},
			mode.Verdict{
				Repair: true, Diff: true, Phase: held,
				Text: `Closed: the freeze of project "shop". 11111111 stays applied; 22222222 waits.`,
			},
		},
		{
			"a closed window, nothing new",
			mode.Facts{Windows: shut, Applied: one, Wanted: one},
			mode.Verdict{Repair: true, Text: `Closed: the freeze of project "shop".`},
		},
		{
			"a closed window that leaves drift",
			mode.Facts{Windows: leaves(shut), Applied: one, Wanted: one},
			mode.Verdict{Diff: true, Text: `Closed: the freeze of project "shop".`},
		},
		{
			"a closed window leaves drift of what is held, too",
			mode.Facts{Windows: leaves(shut), Sync: spec(hold, ""), Applied: one, Wanted: one},
			mode.Verdict{Diff: true, Text: "Held."},
		},
		{
			"a sync in a closed window",
			mode.Facts{Windows: shut, Asked: true, Applied: one, Wanted: two},
			mode.Verdict{
				Repair: true, Diff: true, Phase: held,
				Text: `Closed: the freeze of project "shop". 11111111 stays applied; 22222222 waits.`,
			},
		},
		{
			"a sync that overrides it",
			mode.Facts{Windows: shut, Asked: true, Override: true, Applied: one, Wanted: two},
			mode.Verdict{Apply: true, Repair: true},
		},
		{
			"a sync that the window lets through",
			mode.Facts{Windows: ajar, Asked: true, Applied: one, Wanted: two},
			mode.Verdict{Apply: true, Repair: true},
		},
		{
			"an override of something else",
			mode.Facts{Windows: shut, Override: true, Applied: one, Wanted: one},
			mode.Verdict{Repair: true, Text: `Closed: the freeze of project "shop".`},
		},
		{
			"what began before the window closed",
			mode.Facts{Windows: shut, Begun: true, Applied: one, Wanted: two},
			mode.Verdict{Apply: true, Repair: true},
		},
		{
			"a hold over all that is let through",
			mode.Facts{Windows: shut, Asked: true, Override: true, Sync: spec(hold, ""), Applied: one, Wanted: one},
			mode.Verdict{Repair: true, Text: "Held."},
		},
		{
			"manual in a closed window",
			mode.Facts{Manual: true, Asked: true, Windows: shut, Sync: spec(hold, ""), Applied: one, Wanted: one},
			mode.Verdict{Repair: true, Text: `Closed: the freeze of project "shop".`},
		},
		{
			"what waits for others waits when it is overridden, too",
			mode.Facts{Windows: shut, Asked: true, Override: true, Applied: one, Wanted: two, Depends: db},
			mode.Verdict{
				Repair: true, Diff: true, Phase: waiting,
				Text: `Waits for service "db", which is not healthy. 11111111 stays applied; 22222222 waits.`,
			},
		},
	} {
		if got := mode.Decide(test.facts); got != test.want {
			t.Errorf("%s:\n got %+v\nwant %+v", test.name, got, test.want)
		}
	}
}
