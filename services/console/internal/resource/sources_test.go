package resource

import (
	"encoding/json"
	"strings"
	"testing"

	platform "fairlead.dev/platform/catalog"
	"fairlead.dev/services/console/internal/state"
)

func TestSeveralSources(t *testing.T) {
	t.Parallel()
	chart, values := state.ServiceSource{Name: "chart", Source: "charts", Ref: "chart:web@^1"}, state.ServiceSource{
		Name:   "values",
		Source: "shop",
	}
	for name, tc := range map[string]struct {
		sources []state.ServiceSource
		render  string
		ref     string
		path    string
		words   string // of the refusal; empty: it is accepted
	}{
		"chart and values":    {sources: []state.ServiceSource{chart, values}, render: `{"helm":{"valuesFiles":["$values/env/prod.yaml","ci.yaml"]}}`},
		"one of the folders":  {sources: []state.ServiceSource{chart, values}, render: `{"path":"values/web"}`},
		"all folders":         {sources: []state.ServiceSource{chart, values}, render: `{"path":"."}`},
		"one repository":      {sources: []state.ServiceSource{{Name: "a", Source: "shop"}, {Name: "b", Source: "shop", Ref: "dev"}}},
		"name twice":          {sources: []state.ServiceSource{chart, {Name: "chart", Source: "shop"}}, words: `spec.sources[1].name "chart": is that of sources[0], too`},
		"bad name":            {sources: []state.ServiceSource{{Name: "a/b", Source: "shop"}}, words: "spec.sources[0].name"},
		"bad source":          {sources: []state.ServiceSource{chart, {Name: "values", Source: "Shop"}}, words: `spec.sources[1].source "Shop"`},
		"bad ref":             {sources: []state.ServiceSource{chart, {Name: "values", Source: "shop", Ref: "a..b"}}, words: `spec.sources[1].ref "a..b"`},
		"ref of a sum":        {sources: []state.ServiceSource{chart, {Name: "values", Source: "shop", Ref: "combination:1"}}, words: "spec.sources[1].ref"},
		"bad path":            {sources: []state.ServiceSource{chart, {Name: "values", Source: "shop", Path: "../x"}}, words: `spec.sources[1].path "../x"`},
		"bad rule":            {sources: []state.ServiceSource{chart, {Name: "values", Source: "shop", Include: []string{" "}}}, words: "spec.sources[1].include[0]"},
		"path beside":         {sources: []state.ServiceSource{chart, values}, path: "deploy", words: "belong to each of the sources"},
		"ref beside":          {sources: []state.ServiceSource{chart, values}, ref: "main", words: "belong to each of the sources"},
		"unknown name":        {sources: []state.ServiceSource{chart, values}, render: `{"helm":{"valuesFiles":["$config/prod.yaml"]}}`, words: `none of spec.sources has the name "config"`},
		"no file":             {sources: []state.ServiceSource{chart, values}, render: `{"helm":{"valuesFiles":["$values"]}}`, words: "as $NAME/FILE"},
		"file out of it":      {sources: []state.ServiceSource{chart, values}, render: `{"helm":{"valuesFiles":["$values/../chart/x.yaml"]}}`, words: "below the root"},
		"path of nobody":      {sources: []state.ServiceSource{chart, values}, render: `{"path":"deploy"}`, words: "must begin with the name of one of spec.sources"},
		"values are built":    {sources: []state.ServiceSource{values, chart}, render: `{"helm":{"valuesFiles":["$values/prod.yaml"]}}`, words: "put the chart first"},
		"values are not":      {sources: []state.ServiceSource{values, chart}, render: `{"path":"chart","helm":{"valuesFiles":["$values/prod.yaml"]}}`},
		"values are a folder": {sources: []state.ServiceSource{{Name: "values", Source: "shop", Path: "deploy"}, chart}, render: `{"helm":{"valuesFiles":["$values/prod.yaml"]}}`},
	} {
		s := state.Service{Meta: state.Meta{Name: "web"}, Spec: state.ServiceSpec{
			Source: tc.sources[0].Source, Ref: platform.CombinationPrefix + strings.Repeat("0", 64), Path: tc.path,
			Cluster: "prod", Sources: tc.sources,
		}}
		if tc.ref != "" {
			s.Spec.Ref = tc.ref
		}
		if tc.render != "" {
			s.Spec.Render = json.RawMessage(tc.render)
		}
		err := CheckService(&s)
		if tc.words == "" && err != nil || tc.words != "" && (err == nil || !strings.Contains(err.Error(), tc.words)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	listed := state.Service{Meta: state.Meta{Name: "web"}, Spec: state.ServiceSpec{
		Source: "charts", Ref: platform.CombinationPrefix + strings.Repeat("0", 64), Catalog: true,
		ServiceAccount: "folders",
		Sources:        []state.ServiceSource{chart, values},
	}}
	if err := CheckService(&listed); err == nil || !strings.Contains(err.Error(), "a service with spec.catalog has one source") {
		t.Errorf("a service of the catalog with two sources: %v", err)
	}
	lone := state.Service{Meta: state.Meta{Name: "web"}, Spec: state.ServiceSpec{
		Source: "shop", Ref: platform.CombinationPrefix + "0",
		Cluster: "prod",
	}}
	if err := CheckService(&lone); err == nil {
		t.Error("a service with one source may name a combination")
	}
}
