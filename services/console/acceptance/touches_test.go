package acceptance

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
)

// touched is what an application says of the services that get another configuration: a line each, and behind them how
// many there are.
func (a api) touched(t *testing.T, dry bool, resources ...proto.Message) string {
	t.Helper()
	resp, err := a.applies.Apply(t.Context(), &consolev1.ApplyRequest{Resources: anyOf(resources...), DryRun: dry})
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, s := range resp.GetTouchedServices() {
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s at %s: %s %s", s.GetName(), s.GetCluster(),
			strings.Join(s.GetEntries(), ","), s.GetProblem())))
	}
	return strings.Join(append(lines, fmt.Sprint(resp.GetTouchedTotal())), "\n")
}

// A change of a configuration says before it is written which services get another one: exactly those that do.
func TestAChangeSaysWhichServicesItTouches(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, admin api) {
		set := func(a, b string) *consolev1.ConfigSet {
			return newSet("base", settings{"a": textOf(a), "b": textOf(b)})
		}
		admin.must(t, newSource("shop"), newCluster("edge-1"), newCluster("edge-2"),
			newSecret("pw", "password", "one"), set("1", "1"),
			newSet("db", settings{"pw": refTo("pw", "password")}))
		web, api := configured(newService("web", "shop", "edge-1"), []string{"base"},
			nil), configured(newService("api", "shop", "edge-2"), []string{"base", "db"}, settings{"a": textOf("own")})
		if got := admin.touched(t, false, web, api, newService("plain", "shop", "edge-1")); got != "0" {
			t.Errorf("services that are new: %s", got)
		}
		before := admin.revisions(t)
		for _, tt := range []struct {
			what   string
			change []proto.Message
			want   string
		}{
			{"nothing", []proto.Message{set("1", "1")}, "0"},
			{"an entry that one service has over", []proto.Message{set("2", "1")}, "web at edge-1: a\n1"},
			{"entries of two services", []proto.Message{set("2", "2")}, "api at edge-2: b\nweb at edge-1: a,b\n2"},
			{"a secret behind a set", []proto.Message{newSecret("pw", "password", "two")}, "api at edge-2: pw\n1"},
			{
				"two of them at once",
				[]proto.Message{set("2", "1"), newSecret("pw", "password", "two")},
				"api at edge-2: pw\nweb at edge-1: a\n2",
			},
			{
				"a service itself",
				[]proto.Message{
					configured(newService("web", "shop", "edge-1"), []string{"base"}, settings{"b": textOf("3")}),
				},
				"web at edge-1: b\n1",
			},
			{
				"a reference into nothing",
				[]proto.Message{newSet("db", settings{"pw": refTo("pw", "no-such-key")})},
				"api at edge-2:  \"pw\" (configset/db",
			},
		} {
			if got := admin.touched(t, true, tt.change...); got != tt.want &&
				(tt.what != "a reference into nothing" || !strings.HasPrefix(got, tt.want)) {
				t.Errorf("%s: got\n%s\nwant\n%s", tt.what, got, tt.want)
			}
		}
		for name, revision := range admin.revisions(t) {
			if revision != before[name] {
				t.Errorf("a dry run changed what %s gets", name)
			}
		}
		if got := admin.touched(t, false, set("2", "1")); got != "web at edge-1: a\n1" {
			t.Errorf("written: %s", got)
		}
	})
}
