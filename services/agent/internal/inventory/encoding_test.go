package inventory

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"fairlead.dev/services/agent/internal/object"
)

func record(objects int) Record {
	record := Record{
		Service: "shop", Complete: true, Begun: "set", Orphan: true, Account: "shop/deployer", Cluster: "another",
		Kept: []string{"Namespace shop stays."}, Spared: []string{"Namespace own stays."},
		Left: []object.Key{
			{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition", Name: "boats.harbour.dev"},
		},
		Applied: Applied{Digest: "sha256:1", Commit: "abc"},
	}
	ended := []time.Time{{}, {}, {}, time.Date(2026, 11, 21, 18, 0, 5, 0, time.UTC)}
	for i := range objects {
		record.Entries = append(record.Entries, Entry{
			Ref: object.Ref{
				Key: object.Key{
					Group: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: fmt.Sprintf("it's|\"%d\":ü", i),
				},
				Version: "v1",
			},
			UID: "9f772edb-cd58-4186-9337-23220323445b", Sum: 0x0123456789abcdef, Owned: 1, Wave: int32(i % 3),
			Hook: i%7 == 0, Leaving: i%5 == 0,
			Expires: i%4 > 1, Ended: ended[i%4],
		})
	}
	slices.SortFunc(record.Entries, func(a, b Entry) int { return object.Compare(a.Key, b.Key) })
	return record
}

func found(t *testing.T, r Record) map[string]*unstructured.Unstructured {
	t.Helper()
	head, chunks, _, err := disassemble(r, 0)
	if err != nil {
		t.Fatal(err)
	}
	maps := map[string]*unstructured.Unstructured{head.GetName(): head}
	for _, chunk := range chunks {
		maps[chunk.GetName()] = chunk
	}
	return maps
}

func TestRecordsComeBackWhole(t *testing.T) {
	t.Parallel()
	for _, objects := range []int{0, 1, 20_000} {
		maps := found(t, record(objects))
		for name, m := range maps {
			text, _, _ := unstructured.NestedString(m.Object, "data", objectsKey)
			if len(text) > shardBytes {
				t.Errorf("%s has %d bytes", name, len(text))
			}
		}
		records, broken, orphans := assemble(maps)
		if len(broken) > 0 || len(orphans) > 0 || !reflect.DeepEqual(records["shop"].record, record(objects)) {
			t.Errorf("%d objects in %d ConfigMaps: %v %v", objects, len(maps), broken, orphans)
		}
		if objects == 20_000 && len(maps) < 3 {
			t.Errorf("%d ConfigMaps are too few to test chunks", len(maps))
		}
	}
}

func TestPartsOfAKilledWriterAreOrphans(t *testing.T) {
	t.Parallel()
	maps := found(t, record(20_000))
	for name, m := range found(t, record(19_999)) { // a second write, whose head was not sent
		if name != headName("shop") {
			maps[name] = m
		}
	}
	records, broken, orphans := assemble(maps)
	if len(broken) > 0 || len(records["shop"].record.Entries) != 20_000 ||
		len(orphans) != len(maps)-len(records["shop"].chunks)-1 || len(orphans) == 0 {
		t.Errorf("broken %v, %d orphans of %d", broken, len(orphans), len(maps))
	}
}

func TestDamagedRecordsAreBrokenAndNotEmpty(t *testing.T) {
	t.Parallel()
	damage := map[string]func(map[string]*unstructured.Unstructured){
		"a part is missing": func(maps map[string]*unstructured.Unstructured) {
			for name := range maps {
				if name != headName("shop") {
					delete(maps, name)
					return
				}
			}
		},
		"a line is gone": func(maps map[string]*unstructured.Unstructured) {
			for name := range maps {
				if name != headName("shop") {
					_ = unstructured.SetNestedField(maps[name].Object, "", "data", objectsKey)
					return
				}
			}
		},
		"no state": func(maps map[string]*unstructured.Unstructured) {
			unstructured.RemoveNestedField(maps[headName("shop")].Object, "data")
		},
		"of the future": func(maps map[string]*unstructured.Unstructured) {
			_ = unstructured.SetNestedField(maps[headName("shop")].Object, `{"format":4,"service":"shop"}`, "data",
				stateKey)
		},
	}
	for name, do := range damage {
		maps := found(t, record(20_000))
		do(maps)
		records, broken, orphans := assemble(maps)
		if _, ok := records["shop"]; ok || broken["shop"] == nil || len(orphans) > 0 {
			t.Errorf("%s: read as %d objects, broken %v, %d orphans", name, len(records["shop"].record.Entries),
				broken, len(orphans))
		}
	}
}

// A released agent's inventory: lines of seven strings, in the head and in parts with names by chance.
func TestInventoryOfFormat1IsTakenOver(t *testing.T) {
	t.Parallel()
	const line = `["apps","v1","Deployment","shop","web%d","9f772edb-cd58-4186-9337-23220323445b","0123456789abcdef"]` +
		"\n"
	maps := map[string]*unstructured.Unstructured{
		"inventory.shop": configMap("inventory.shop", "shop", map[string]any{
			stateKey:   `{"format":1,"service":"shop","complete":true,"applied":{"digest":"sha256:1","commit":"abc","time":"2026-01-02T03:04:05Z"},"objects":2,"chunks":["inventory.shop.xyz"]}`,
			objectsKey: fmt.Sprintf(line, 1),
		}),
		"inventory.shop.xyz": configMap("inventory.shop.xyz", "shop", map[string]any{objectsKey: fmt.Sprintf(line, 2)}),
	}
	records, broken, orphans := assemble(maps)
	kept := records["shop"]
	if len(broken) > 0 || len(orphans) > 0 || !kept.record.Has("sha256:1") || len(kept.record.Entries) != 2 {
		t.Fatalf("got %+v, broken %v, orphans %v", kept, broken, orphans)
	}
	if e := kept.record.Entries[1]; e.Name != "web2" || e.Sum != 0x0123456789abcdef || e.UID == "" {
		t.Errorf("got %+v", e)
	}
	again, broken, _ := assemble(found(t, kept.record))
	if len(broken) > 0 || !reflect.DeepEqual(again["shop"].record, kept.record) {
		t.Errorf("written anew it is %+v", again["shop"].record)
	}
}

func TestOnePercentRewritesFewShards(t *testing.T) {
	t.Parallel()
	before := record(20_000)
	was := found(t, before)
	after := record(20_000)
	for i := range 20 { // an object here and there is the worst case; a percent of one folder is usual
		after.Entries[i*1000].Sum++
	}
	rewritten := 0
	for name := range found(t, after) {
		if was[name] == nil {
			rewritten++
		}
	}
	if rewritten == 0 || rewritten > 20 || len(was) < 16 {
		t.Errorf("%d of %d ConfigMaps are written anew for 20 of 20,000 objects", rewritten, len(was))
	}
}

func FuzzAssemble(f *testing.F) {
	f.Add(`{"format":1,"service":"a","objects":1,"chunks":["inventory.a.1"]}`,
		`["","v1","ConfigMap","ns","n","u","h"]`, "x")
	f.Add(`{"format":1,"service":"a","objects":1}`, "[]\n", "")
	f.Add(`{"format":2,"service":"a","objects":1}`, `["","v1","ConfigMap","ns","n","u","00","01","-1"]`, "")
	f.Fuzz(func(t *testing.T, state, objects, more string) {
		maps := map[string]*unstructured.Unstructured{
			"inventory.a":   configMap("inventory.a", "a", map[string]any{stateKey: state, objectsKey: objects}),
			"inventory.a.1": configMap("inventory.a.1", "a", map[string]any{objectsKey: more}),
		}
		records, broken, _ := assemble(maps)
		if _, ok := records["a"]; ok == (broken["a"] != nil) {
			t.Error("a record is neither read nor broken")
		}
	})
}

// No sum says that something may have been applied in part, and nothing else; before format 3 it said so of what
// leaves, too.
func TestNoSumIsNotLeaving(t *testing.T) {
	t.Parallel()
	r := record(2)
	r.Entries[0].Sum, r.Entries[0].Leaving = 0, false
	maps := found(t, r)
	for format, leaving := range map[string]bool{`"format":3`: false, `"format":2`: true} {
		head := maps[headName("shop")].DeepCopy()
		text, _, _ := unstructured.NestedString(head.Object, "data", stateKey)
		if err := unstructured.SetNestedField(head.Object, strings.Replace(text, `"format":3`, format, 1), "data",
			stateKey); err != nil {
			t.Fatal(err)
		}
		records, broken, _ := assemble(map[string]*unstructured.Unstructured{headName("shop"): head})
		if entries := records["shop"].record.Entries; len(broken) > 0 || entries[0].Leaving != leaving ||
			entries[1].Leaving {
			t.Errorf("%s: %v %v", format, broken, entries)
		}
	}
}
