package inventory

import (
	"fmt"
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"fairlead.dev/services/agent/internal/object"
)

func record(objects int) Record {
	record := Record{Service: "shop", Complete: true, Applied: Applied{Digest: "sha256:1", Commit: "abc"}}
	for i := range objects {
		record.Entries = append(record.Entries, Entry{
			Ref: object.Ref{Key: object.Key{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: fmt.Sprintf("it's|\"%d\":ü", i)}, Version: "v1"},
			UID: "9f772edb-cd58-4186-9337-23220323445b", Hash: "0123456789abcdef",
		})
	}
	return record
}

func found(t *testing.T, r Record) map[string]*unstructured.Unstructured {
	t.Helper()
	head, chunks, err := disassemble(r)
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
			if len(text) > chunkBytes {
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
	for name, m := range found(t, record(20_000)) { // a second write, whose head was not sent
		if name != headName("shop") {
			maps[name] = m
		}
	}
	records, broken, orphans := assemble(maps)
	if len(broken) > 0 || len(records["shop"].record.Entries) != 20_000 || len(orphans) != (len(maps)-1)/2 {
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
			_ = unstructured.SetNestedField(maps[headName("shop")].Object, "", "data", objectsKey)
		},
		"no state": func(maps map[string]*unstructured.Unstructured) {
			unstructured.RemoveNestedField(maps[headName("shop")].Object, "data")
		},
		"of the future": func(maps map[string]*unstructured.Unstructured) {
			_ = unstructured.SetNestedField(maps[headName("shop")].Object, `{"format":2,"service":"shop"}`, "data", stateKey)
		},
	}
	for name, do := range damage {
		maps := found(t, record(20_000))
		do(maps)
		records, broken, orphans := assemble(maps)
		if _, ok := records["shop"]; ok || broken["shop"] == nil || len(orphans) > 0 {
			t.Errorf("%s: read as %d objects, broken %v, %d orphans", name, len(records["shop"].record.Entries), broken, len(orphans))
		}
	}
}

func FuzzAssemble(f *testing.F) {
	f.Add(`{"format":1,"service":"a","objects":1,"chunks":["inventory.a.1"]}`, `["","v1","ConfigMap","ns","n","u","h"]`, "x")
	f.Add(`{"format":1,"service":"a","objects":1}`, "[]\n", "")
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
