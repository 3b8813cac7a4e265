package state

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	platform "fairlead.dev/platform/catalog"
)

// Modes of sync, as the API calls them.
const (
	ModeAuto    = "SYNC_MODE_AUTO"
	ModeDryRun  = "SYNC_MODE_DRY_RUN"
	ModeHold    = "SYNC_MODE_HOLD"
	ModeSuspend = "SYNC_MODE_SUSPEND"
	ModeManual  = "SYNC_MODE_MANUAL"
)

// Wishes are the parts of a service's sync options that the console itself looks at.
type Wishes struct {
	Pin         string            `json:"pin"`
	DependsOn   []string          `json:"dependsOn"`
	Mode        string            `json:"mode"`
	Reason      string            `json:"reason"`
	Windows     Windows           `json:"windows"`
	Adoption    string            `json:"adoption"`
	OnDelete    string            `json:"onDelete"`
	Impersonate string            `json:"impersonate"`
	Made        json.RawMessage   `json:"createNamespace"`
	Ignore      []json.RawMessage `json:"ignore"`
	Health      []json.RawMessage `json:"health"`
	Prune       struct {
		Disabled   bool   `json:"disabled"`
		MaxPercent *int   `json:"maxPercent"`
		Confirmed  string `json:"confirmed"`
	} `json:"prune"`
}

// Wishes reads them. Options that can't be read are as if they were not there: agents and distributors say so.
func (s *ServiceSpec) Wishes() (w Wishes) {
	if s.Sync != nil && json.Unmarshal(s.Sync, &w) != nil {
		return Wishes{}
	}
	return w
}

// WaitsFor are the names of the services that a stored service waits for, or will when no lever stands over its files.
func (s *ServiceSpec) WaitsFor() []string {
	names := s.Wishes().DependsOn
	if s.Levers == nil || s.Levers.Files == nil {
		return names
	}
	for _, name := range s.Levers.Files.Wishes().DependsOn {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// KeepsObjects says whether what the service has applied, or what its folder declares, stays when it is deleted.
func (s *ServiceSpec) KeepsObjects() bool { return s.Wishes().OnDelete == "DELETE_POLICY_ORPHAN" }

// EffectiveRef is what is delivered from: the pin, or else the ref.
func (s *ServiceSpec) EffectiveRef() string {
	return platform.PinnedRef(s.Ref, s.Wishes().Pin)
}

// Levers are what operators pulled of a service, over what files say of it. The spec of a service is stored as it is in
// force, so that distributors and consoles of older versions deliver the same; beside it stand the levers, and the spec
// of the files.
type Levers struct {
	Mode *Lever `json:"mode,omitempty"`
	Pin  *Lever `json:"pin,omitempty"`
	// Files is the spec as files say it; nil: it is the one in force.
	Files *ServiceSpec `json:"files,omitempty"`
}

// Lever is one of them.
type Lever struct {
	// Mode of a mode lever, as in SyncSpec.
	Mode string `json:"mode,omitempty"`
	// Commit of a pin; empty: the pin that files name is released. After is the ref's commit that the pin waits to be
	// left behind.
	Commit string `json:"commit,omitempty"`
	After  string `json:"after,omitempty"`
	// Deployment is the number of the one that a rollback went back to, and Spec that of it; 0: it is a pin.
	Deployment int64        `json:"deployment,omitempty"`
	Spec       *ServiceSpec `json:"spec,omitempty"`

	// By pulled it; empty: that is not known, because a console of an older version wrote it.
	By     string    `json:"by,omitempty"`
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since,omitzero"`
	// Until is when it ends by itself; zero: it does not.
	Until time.Time `json:"until,omitzero"`
}

// Words name a lever, as in: keeps the hold of user:ada (incident 7).
func (l *Lever) Words() string {
	out := "the pin to " + Short(l.Commit)
	switch {
	case l.Deployment > 0:
		out = fmt.Sprintf("the rollback to deployment %d", l.Deployment)
	case l.Mode == ModeSuspend:
		out = "the suspension"
	case l.Mode == ModeDryRun:
		out = "the dry run"
	case l.Mode == ModeHold:
		out = "the hold"
	case l.Mode == ModeManual:
		out = "the manual mode"
	case l.Mode != "":
		out = "the automatic mode"
	case l.Commit == "":
		out = "the release of the pin"
	}
	if l.By != "" {
		out += " of " + l.By
	}
	if l.Reason != "" {
		out += " (" + l.Reason + ")"
	}
	return out
}

// End says when a pin ends.
func (l *Lever) End() string {
	switch {
	case !l.Until.IsZero():
		return "it ends at " + l.Until.UTC().Format(time.RFC3339)
	case l.After != "":
		return "it ends when the ref moves on, or when somebody releases it"
	}
	return "it ends when somebody releases it"
}
