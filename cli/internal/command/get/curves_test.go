package get

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
)

// curvesOf is an answer of a hub at a time, with points by how many minutes before it their steps ended.
func curvesOf(now time.Time, figure string, points map[int][2]int64) *consolev1.GetViewCurvesResponse {
	c := &consolev1.ViewCurve{Figure: figure}
	for ago := 24 * 60; ago >= 0; ago -= 5 {
		if p, ok := points[ago]; ok {
			c.Points = append(c.Points, &consolev1.ViewCurvePoint{
				Time: timestamppb.New(now.Add(-time.Duration(ago) * time.Minute)),
				Last: p[0], Highest: p[1], Clusters: 1,
			})
		}
	}
	return &consolev1.GetViewCurvesResponse{
		Curves: []*consolev1.ViewCurve{c}, Step: durationpb.New(5 * time.Minute), Clusters: 1,
		BeginTime: timestamppb.New(now.Add(-287 * 5 * time.Minute)), EndTime: timestamppb.New(now),
	}
}

func TestCurvesInText(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		figure string
		points map[int][2]int64
		want   string
	}{
		"a day with a gap": {
			"pods.not_ready",
			map[int][2]int64{0: {0, 0}, 30: {1, 12}, 180: {3, 6}, 1435: {1, 1}},
			"pods not ready  0     12       30m ago  ▂" + strings.Repeat("·", 40) + "▅····█▁",
		},
		"a last one of before, twice the highest": {
			"restarts.hour",
			map[int][2]int64{300: {4, 4}, 600: {4, 4}},
			"restarts an hour  4, 5h ago  4        5h ago  " + strings.Repeat("·", 27) + "█" +
				strings.Repeat("·", 9) + "█" + strings.Repeat("·", 10),
		},
		"a share of what there is": {
			"shares.cpu",
			map[int][2]int64{0: {250, 254}},
			"CPU requested  25%   25%      now   " + strings.Repeat("·", 47) + "▃",
		},
		"a share of more than there is": {
			"shares.memory",
			map[int][2]int64{0: {1000, 2000}},
			"memory requested  100%  200%     now   " + strings.Repeat("·", 47) + "█",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			table, notes := curveTable(curvesOf(now, c.figure, c.points), now)
			table.MaxCell, table.Headless = 60, false
			var b strings.Builder
			if err := table.Write(&b); err != nil {
				t.Fatal(err)
			}
			if _, got, _ := strings.Cut(b.String(), "\n"); got != c.want+"\n" {
				t.Errorf("got\n%swant\n%s", got, c.want)
			}
			if !strings.HasPrefix(notes, "· is a gap") {
				t.Errorf("notes: %q", notes)
			}
		})
	}
	if table, _ := curveTable(curvesOf(now, "pods.not_ready", nil), now); table != nil {
		t.Error("without points there is a table")
	}
	estimate := curvesOf(now, "pods.not_ready", map[int][2]int64{0: {8, 8}})
	estimate.Curves[0].Sampled, estimate.Clusters = 1, 3
	table, notes := curveTable(estimate, now)
	var b strings.Builder
	if err := table.Write(&b); err != nil || !strings.Contains(b.String(), " ≈8 ") ||
		!strings.Contains(notes, "left out") {
		t.Errorf("of a sample of one of three clusters: %s%s, %v", b.String(), notes, err)
	}
}
