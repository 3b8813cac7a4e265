package config_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
)

// keyTests are the tests that try a setting against what the agent does without a configuration, and against its flags:
// a wider value is clamped or refused, a narrower one holds.
func keyTests() map[string]string {
	const (
		limits  = "services/agent/internal/render TestLimitsAreOnlyNarrowed"
		account = "services/agent/internal/reconcile TestAccountsAreOnlyNarrowed"
		policy  = "platform/tunnelclient TestMorePoliciesOnlyNarrow"
	)
	return map[string]string{
		"poll.interval":            "services/distributor/internal/rpc TestPollsAreOnlyNarrowed",
		"poll.jitter":              "services/distributor/internal/rpc TestPollsAreOnlyNarrowed",
		"concurrency":              "services/agent/internal/reconcile TestConcurrencyIsOnlyNarrowed",
		"apiRequests":              "services/agent/internal/apply TestWidthIsOnlyNarrowed",
		"renderer.time":            limits,
		"renderer.cpu":             limits,
		"renderer.memory":          limits,
		"images.registries":        "services/agent/acceptance TestImagesOfWhatWasRenderedBeforeAreNarrowed",
		"impersonation.required":   account,
		"impersonation.accounts":   account,
		"tunnel.readOnly":          policy,
		"tunnel.noImpersonation":   policy,
		"tunnel.impersonateUsers":  policy,
		"tunnel.impersonateGroups": policy,
		"off":                      "services/agent/acceptance TestFeaturesAreOffAndOnAgain",
		"logLevel":                 "services/agent TestLogIsOnlyNarrowed",
	}
}

// eachKey calls do with the path of each setting, as YAML has it.
func eachKey(of protoreflect.MessageDescriptor, at string, do func(path string)) {
	fields := of.Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		path := at + field.JSONName()
		if m := field.Message(); m != nil && strings.HasPrefix(string(m.FullName()), "fairlead.") {
			eachKey(m, path+".", do)
			continue
		}
		do(path)
	}
}

// A setting that is added to the contract fails here until a test tries that it only narrows.
func TestEachSettingIsTriedAgainstFlags(t *testing.T) {
	t.Parallel()
	held := keyTests()
	spec := (&consolev1.AgentConfigSpec{}).ProtoReflect().Descriptor()
	eachKey(spec, "", func(path string) {
		path, isSetting := strings.CutPrefix(path, "settings.")
		if !isSetting {
			if path != "description" && !strings.HasPrefix(path, "clusters.") {
				t.Errorf("%s is no setting, and does not say which clusters they are for", path)
			}
			return
		}
		dir, name, _ := strings.Cut(held[path], " ")
		if delete(held, path); name == "" {
			t.Errorf("%s: no test tries that it only narrows", path)
			return
		}
		sources, err := filepath.Glob(filepath.Join("..", "..", "..", "..", dir, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(sources, func(source string) bool {
			text, err := os.ReadFile(source)
			return err == nil && strings.Contains(string(text), "\nfunc "+name+"(")
		}) {
			t.Errorf("%s: %s has no %s", path, dir, name)
		}
	})
	if len(held) > 0 {
		t.Errorf("no settings any more: %v", slices.Sorted(maps.Keys(held)))
	}
}
