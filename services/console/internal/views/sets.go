package views

import (
	"context"
	"strings"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/viewset"
)

// maxTroubles is how many clusters the status of a ViewSet names.
const maxTroubles = 100

// SetStatuses says of ViewSets how far the views of the clusters that the caller sees have them.
func (b *Board) SetStatuses(ctx context.Context, sets []*consolev1.ViewSet) error {
	if len(sets) == 0 {
		return nil
	}
	all, _, err := b.look(ctx, true)
	if err != nil {
		return err
	}
	for _, set := range sets {
		set.Status = &consolev1.ViewSetStatus{}
		for _, s := range all {
			if !viewset.Chooses(set, s.Name(), s.Labels()) {
				continue
			}
			if err := s.count(set.GetStatus(), viewset.Section(set.GetMetadata().GetName())); err != nil {
				return err
			}
		}
	}
	return nil
}

// count adds a cluster to the status of a ViewSet.
func (s *seen) count(status *consolev1.ViewSetStatus, name string) error {
	status.Clusters++
	if s.view != nil && s.isWhole(name) {
		status.Whole++
		return nil
	}
	if status.TroublesTotal++; len(status.GetTroubles()) == maxTroubles {
		return nil
	}
	why, err := s.lacks(name)
	status.Troubles = append(status.Troubles, &consolev1.ViewSetTrouble{Cluster: s.Name(), Reason: why})
	return err
}

// gapOfSet says why a cluster that a ViewSet chooses has no rows of it, if its section does not say so already. Of
// another cluster nothing is missing that has no such section.
func (s *seen) gapOfSet(set *consolev1.ViewSet, name string, told *consolev1.RowsGap) (*consolev1.RowsGap, error) {
	if s.view != nil && (s.view.rows[name] || s.isWhole(name)) {
		return told, nil
	}
	if !viewset.Chooses(set, s.Name(), s.Labels()) {
		return nil, nil //nolint:nilnil // nothing is missing
	}
	why, err := s.lacks(name)
	return &consolev1.RowsGap{Cluster: s.Name(), Reason: why}, err
}

// isWhole says whether the view has a section whose figures are of now.
func (s *seen) isWhole(name string) bool {
	_, counted := s.view.figures.get(name + ".total")
	return counted && strings.Contains(s.view.whole, " "+name+" ")
}

// lacks says why a view does not have a section of a ViewSet.
func (s *seen) lacks(name string) (string, error) {
	if s.view == nil {
		return missing(s), nil
	}
	whole, err := s.view.decode()
	if err != nil {
		return "", err
	}
	version, _ := s.Agent()
	is := section(whole, name)
	switch {
	case is == nil && !s.KeepsSets():
		return "the agent (" + version + ") keeps no ViewSets: update it, or let it (viewSets of its chart)", nil
	case is.GetReason() != "":
		return is.GetReason(), nil
	}
	return "the agent still reads them", nil
}
