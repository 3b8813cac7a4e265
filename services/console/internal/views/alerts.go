package views

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	"fairlead.dev/platform/viewset"
	"fairlead.dev/services/console/internal/index"
	"fairlead.dev/services/console/internal/query"
	"fairlead.dev/services/console/internal/store"
)

// figure is a word of a question that may be one.
var figure = regexp.MustCompile(`[a-z][a-z0-9-]*(\.[A-Za-z0-9_-]+)+`)

// Question is a filter over clusters and their figures that outlives the views of now.
type Question struct{ expr *query.Expr }

// ParseQuestion reads a question. Any figure of a section that agents push may be in it: a later version of the console
// may have written it. Question.Mistake says which of them no view has.
func ParseQuestion(text string) (*Question, error) {
	fields := index.Fields(store.KindCluster)
	for _, name := range known() {
		fields[name] = query.Number
	}
	pushed := sections()
	for _, name := range figure.FindAllString(text, -1) {
		section, _, _ := strings.Cut(name, ".")
		if _, ofSet := viewset.NameOf(section); ofSet || slices.Contains(pushed, section) {
			fields[name] = query.Number
		}
	}
	expr, err := query.Parse(text, fields)
	return &Question{expr}, err
}

// sections are those that agents of this version push.
func sections() (out []string) {
	for _, name := range known() {
		if section, _, _ := strings.Cut(name, "."); !slices.Contains(out, section) {
			out = append(out, section)
		}
	}
	return out
}

// Subject is a cluster that a question is about.
type Subject struct {
	*seen
	current bool // the view is of now
}

// Subjects are all clusters, by name, whoever may see them.
func (b *Board) Subjects(ctx context.Context) ([]Subject, error) {
	clusters, err := b.Clusters.Clusters(ctx, nil)
	if err != nil {
		return nil, err
	}
	if !b.isLoaded() {
		return nil, ErrBegins
	}
	out := make([]Subject, len(clusters))
	b.mu.RLock()
	defer b.mu.RUnlock()
	for i, c := range clusters {
		s := b.of(c)
		out[i] = Subject{&s, s.view != nil && c.Connected() && s.unfollowed() == ""}
	}
	return out, nil
}

// Doubts implements query.Doubtful: a figure is known if the cluster is connected and its agent counts the whole
// section.
func (s Subject) Doubts(name string) bool {
	if !isFigure(name) {
		return false
	}
	section, _, _ := strings.Cut(name, ".")
	return !s.current || !strings.Contains(s.view.whole, " "+section+" ")
}

// Answer says whether a question holds for a cluster; unknown: a figure that decides it is not known now.
func (s Subject) Answer(q *Question, now time.Time) (holds, unknown bool) {
	holds, sure := q.expr.Ask(s, now)
	return holds, !sure
}

// isFigure says whether a field is one of views.
func isFigure(name string) bool {
	return strings.Contains(name, ".") && !strings.HasPrefix(name, labelPrefix)
}

const (
	// warnings is the section of Events.
	warnings = "warnings"
	// reasonPrefix is before the reasons of warnings where they are asked for.
	reasonPrefix = warnings + ".reason."
)

// reason is how often Events say one, in the last hour, in the groups that a view lists. Filters can ask for it; no
// list or sum has it: there may be 50 of a cluster.
type reason struct {
	figure string // warnings.reason.FailedMount
	count  int64
}
