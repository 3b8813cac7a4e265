package catalog

import (
	"fmt"

	"fairlead.dev/platform/plural"
	"fairlead.dev/services/console/internal/state"
)

// NoteSide says what came of services of global services beside a write, in words: how many were created, updated,
// deleted and detached, and at how many the change waits for a lever.
func NoteSide(side []Written) ([]string, error) {
	counts, waiting, detached := map[Outcome]int{}, 0, 0
	for _, w := range side {
		if w.isDetached() {
			detached++
			continue
		}
		counts[w.Outcome]++
		waits, err := w.waits()
		if err != nil {
			return nil, err
		}
		if waits {
			waiting++
		}
	}
	var parts []string
	for _, o := range []Outcome{Created, Updated, Removed} {
		n := counts[o]
		if n == 0 {
			continue
		}
		part := plural.Of(n, "service") + " " + string(o)
		switch {
		case o != Updated || waiting == 0:
		case n == 1:
			part += ", and the change waits until its lever ends"
		default:
			part += fmt.Sprintf(", and the change waits at %d of them until its lever ends", waiting)
		}
		parts = append(parts, part)
	}
	if detached > 0 {
		parts = append(parts, plural.Of(detached, "service")+" detached, and changed by no global service any more")
	}
	return parts, nil
}

// isDetached tells whether a service was taken from its global service, and stays.
func (w Written) isDetached() bool {
	return w.Before != nil && w.After != nil && w.Before.Labels[GlobalLabel] != "" && w.After.Labels[GlobalLabel] == ""
}

// waits tells whether a lever keeps a change of what files say of a service from its cluster.
func (w Written) waits() (bool, error) {
	if w.Before == nil || w.After == nil {
		return false, nil
	}
	was, err := state.FilesOf(*w.Before)
	if err != nil {
		return false, err
	}
	var spec state.ServiceSpec
	if err := state.Decode(*w.After, &spec); err != nil {
		return false, err
	}
	is, err := state.PartsOf(spec)
	if err != nil || state.SameFiles(was, is.Files) {
		return false, err
	}
	mode, pin := is.Levers.Mode, is.Levers.Pin
	switch {
	case mode != nil && mode.Mode != state.ModeAuto:
		return true, nil
	case pin != nil && pin.Deployment > 0:
		waits, _, err := state.UnderRollback(was, is.Files)
		return waits, err
	}
	return false, nil
}
