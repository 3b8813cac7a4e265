package child_test

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/services/agent/internal/kubeyaml"
	"fairlead.dev/services/agent/internal/render"
)

// recalling is run with kept answers. recalling gives those that templates got, too.
func recalling(t *testing.T, spec *deliveryv1.RenderSpec, files map[string]string,
	kept []render.Answer,
) (map[string]string, []render.Answer) {
	t.Helper()
	folder, err := scan(t, spec, files)
	if err != nil {
		t.Fatal(err)
	}
	objects, asked := map[string]string{}, 0
	var answers []render.Answer
	renderer := render.New(os.Args[0], asChild)
	renderer.CPU, renderer.Time = processor, patience
	err = renderer.Render(t.Context(), render.Input{
		Folder: folder, Scope: scope(),
		Recall:  func(context.Context) ([]render.Answer, error) { asked++; return kept, nil },
		Answers: func(used []render.Answer) { answers = used },
	}, func(obj *unstructured.Unstructured, _ kubeyaml.Position) error {
		text, err := json.Marshal(obj.Object)
		objects[obj.GetKind()+" "+obj.GetName()] = string(text)
		return err
	})
	if err != nil || asked > 1 {
		t.Fatalf("asked %d times: %v", asked, err)
	}
	return objects, answers
}

// moving calls every function that gives another answer each time.
const moving = `{{ $ca := genCA "ca" 365 }}{{ $cert := genSignedCert "a" nil (list "a.b") 90 $ca }}{{ $self := genSelfSignedCert "a" nil nil 30 }}{{ $key := genPrivateKey "ecdsa" }}
apiVersion: v1
kind: Secret
metadata: {name: all}
stringData:
  ca: {{ $ca.Cert | quote }}
  crt: {{ $cert.Cert | quote }}
  key: {{ $cert.Key | quote }}
  self: {{ $self.Cert | quote }}
  withca: {{ (genCAWithKey "ca" 365 $key).Cert | quote }}
  withself: {{ (genSelfSignedCertWithKey "a" nil nil 30 $key).Cert | quote }}
  withsigned: {{ (genSignedCertWithKey "a" nil nil 30 $ca $key).Cert | quote }}
  alnum: {{ randAlphaNum 20 | quote }}
  again: {{ randAlphaNum 20 | quote }}
  alpha: {{ randAlpha 20 | quote }}
  digits: {{ randNumeric 20 | quote }}
  ascii: {{ randAscii 20 | b64enc | quote }}
  bytes: {{ randBytes 20 | quote }}
  int: {{ randInt 0 1000000000 | quote }}
  shuffled: {{ shuffle "abcdefghijklmnopqrstuvwxyz" | quote }}
  uuid: {{ uuidv4 | quote }}
  htpasswd: {{ htpasswd "ada" "secret" | quote }}
  bcrypt: {{ bcrypt "secret" | quote }}
  aes: {{ encryptAES "0123456789abcdef" "text" | quote }}
  now: {{ now | quote }}
  date: {{ now | date "2006-01-02T15:04:05.999999999" | quote }}
  stamp: {{ now | unixEpoch | quote }}
  undated: {{ dateInZone "15:04:05.999999999" "" "UTC" | quote }}
  ago: {{ ago (toDate "2006-01-02" "2020-01-02") | quote }}
  since: {{ durationRound (toDate "2006-01-02" "2020-01-02") | quote }}
  keys: {{ keys (dict "a" 1 "b" 2 "c" 3 "d" 4 "e" 5) | join "," | quote }}
  values: {{ values (dict "a" 1 "b" 2 "c" 3 "d" 4 "e" 5) | join "," | quote }}
  derived: {{ derivePassword 1 "long" "password" "ada" "example.com" | quote }}
`

func TestWhatIsKeptIsRenderedAgainByteByByte(t *testing.T) {
	t.Parallel()
	chart := map[string]string{"Chart.yaml": chartYAML, "templates/all.yaml": moving}
	first, kept := recalling(t, nil, chart, nil)
	other, _ := recalling(t, nil, chart, nil)
	again, same := recalling(t, nil, chart, kept)
	if first["Secret all"] != again["Secret all"] || len(kept) != len(same) {
		t.Errorf("rendered again it is\n%s\nfirst\n%s", again["Secret all"], first["Secret all"])
	}
	fields := func(text string) map[string]any {
		var secret struct{ StringData map[string]any }
		if err := json.Unmarshal([]byte(text), &secret); err != nil {
			t.Fatal(err)
		}
		return secret.StringData
	}
	one, two := fields(first["Secret all"]), fields(other["Secret all"])
	for _, name := range slices.Sorted(maps.Keys(one)) {
		fixed := slices.Contains([]string{"keys", "values", "derived", "ago", "since", "stamp"}, name)
		if !fixed && one[name] == two[name] {
			t.Errorf("%s is %v twice: the test shows nothing", name, one[name])
		}
	}
	if one["alnum"] == one["again"] {
		t.Error("two calls of one template got one answer")
	}
	if one["keys"] != "a,b,c,d,e" || one["values"] != "1,2,3,4,5" {
		t.Errorf("keys %v, values %v", one["keys"], one["values"])
	}
}

func TestTemplatesKeepTheirRandomValuesToo(t *testing.T) {
	t.Parallel()
	files := map[string]string{"a.yaml": configMap("a", `{{ randInt 0 1000000000 }}-{{ bcrypt "x" }}`)}
	first, kept := recalling(t, with(templates), files, nil)
	again, _ := recalling(t, with(templates), files, kept)
	if len(kept) != 2 || first["ConfigMap a"] != again["ConfigMap a"] {
		t.Errorf("%v, then %v", first, again)
	}
}

// Templates do not share answers; what one includes is its own.
func TestAnswersAreThoseOfTheirTemplate(t *testing.T) {
	t.Parallel()
	chart := map[string]string{
		"Chart.yaml":                 chartYAML,
		"templates/_parts.tpl":       `{{ define "password" }}{{ randAlphaNum 12 }}{{ end }}`,
		"templates/a.yaml":           configMap("a", `{{ include "password" . }}`),
		"templates/b.yaml":           configMap("b", `{{ include "password" . }}`),
		"charts/db/Chart.yaml":       "apiVersion: v2\nname: db\nversion: 1.0.0\n",
		"charts/db/templates/c.yaml": configMap("c", `{{ tpl "{{ randAlphaNum 12 }}" . }}`),
	}
	first, kept := recalling(t, nil, chart, nil)
	var names []string
	for _, answer := range kept {
		names = append(names, answer.Template)
	}
	slices.Sort(names)
	if want := []string{
		"web/charts/db/templates/c.yaml", "web/templates/a.yaml", "web/templates/b.yaml",
	}; !slices.Equal(names, want) {
		t.Errorf("answers of %v, want %v", names, want)
	}
	delete(chart, "templates/a.yaml")
	again, _ := recalling(t, nil, chart, kept)
	if again["ConfigMap b"] != first["ConfigMap b"] || again["ConfigMap c"] != first["ConfigMap c"] {
		t.Errorf("without another template it is %v, was %v", again, first)
	}
}

// A certificate is made again in good time, with all that it signs; a password beside it stays.
func TestACertificateIsRenewedAloneWithWhatItSigned(t *testing.T) {
	t.Parallel()
	chart := map[string]string{
		"Chart.yaml": chartYAML,
		"templates/a.yaml": `{{ $ca := genCA "ca" 90 }}{{ $leaf := genSignedCert "a" nil nil 365 $ca }}
apiVersion: v1
kind: Secret
metadata: {name: tls}
data:
  ca: {{ $ca.Cert | b64enc }}
  crt: {{ $leaf.Cert | b64enc }}
  password: {{ randAlphaNum 12 | b64enc }}
`,
	}
	first, kept := recalling(t, nil, chart, nil)
	soon, late := time.Now().AddDate(0, 0, 90*7/12-1), time.Now().AddDate(0, 0, 90*2/3)
	for i, answer := range kept {
		if answer.Function != "genCA" {
			continue
		}
		if answer.Renew.Before(soon) || answer.Renew.After(late) {
			t.Errorf("an authority of 90 days is renewed at %s", answer.Renew)
		}
		kept[i].Renew = time.Now().Add(-time.Second)
	}
	again, _ := recalling(t, nil, chart, kept)
	var before, after struct{ Data map[string]string }
	for text, to := range map[string]any{first["Secret tls"]: &before, again["Secret tls"]: &after} {
		if err := json.Unmarshal([]byte(text), to); err != nil {
			t.Fatal(err)
		}
	}
	if before.Data["ca"] == after.Data["ca"] || before.Data["crt"] == after.Data["crt"] ||
		before.Data["password"] != after.Data["password"] {
		t.Errorf("it was %v, and is %v", before.Data, after.Data)
	}
	if err := parse(t, after.Data["crt"]).CheckSignatureFrom(parse(t, after.Data["ca"])); err != nil {
		t.Errorf("the certificate is not of the new authority: %v", err)
	}
}

func parse(t *testing.T, encoded string) *x509.Certificate {
	t.Helper()
	text, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	if block == nil {
		t.Fatal("no PEM")
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}

// A certificate that outlasts the arithmetic of durations, and one that is over at once, are not made again and again.
func TestACertificateOfAnyLifeIsNotDueAtOnce(t *testing.T) {
	t.Parallel()
	for _, days := range []string{"-1", "0", "53376", "73000", "99999"} {
		_, answers := recalling(t, nil, map[string]string{
			"Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.0.0\n",
			"templates/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {ca: {{ (genCA \"web\" " +
				days + ").Cert | quote }}}\n",
		}, nil)
		if len(answers) != 1 || answers[0].Due(time.Now().Add(time.Hour)) {
			t.Errorf("%s days: %d answers, renewed at %v", days, len(answers), answers[0].Renew)
		}
	}
}

func TestWhatIsTooMuchToBeKeptIsNamed(t *testing.T) {
	t.Parallel()
	chart := map[string]string{
		"Chart.yaml":           chartYAML,
		"templates/_parts.tpl": "{{/* passwords */}}\n{{ define \"password\" }}{{ randAlphaNum 1000 }}{{ end }}",
		"templates/a.yaml":     configMap("a", `{{ range until 300 }}{{ include "password" $ }}{{ end }}`),
	}
	folder, err := scan(t, nil, chart)
	if err != nil {
		t.Fatal(err)
	}
	renderer := render.New(os.Args[0], asChild)
	renderer.CPU, renderer.Time = processor, patience
	var warnings []string
	var answers []render.Answer
	err = renderer.Render(t.Context(), render.Input{
		Folder: folder, Scope: scope(),
		Answers: func(used []render.Answer) { answers = used },
		Warn:    func(text string) { warnings = append(warnings, text) },
	}, func(*unstructured.Unstructured, kubeyaml.Position) error { return nil })
	if want := "Random values are made again by every render, because they are too many to be kept: web/templates/_parts.tpl, line 2 (randAlphaNum)."; err != nil || !slices.Contains(warnings, want) {
		t.Errorf("warned of %q, want %q: %v", warnings, want, err)
	}
	size := 0
	for _, answer := range answers {
		size += len(answer.Value)
	}
	if size > render.MaxAnswers || size < render.MaxAnswers/2 {
		t.Errorf("%d bytes are kept", size)
	}
}

// The mark by which a template says its name is in no error.
func TestErrorsNameTheColumnOfTheTemplate(t *testing.T) {
	t.Parallel()
	refuses(t, nil, map[string]string{"Chart.yaml": chartYAML, "templates/a.yaml": `{{ fail "say what" }}`},
		"web/templates/a.yaml:1:3")
	refuses(t, nil, map[string]string{"Chart.yaml": chartYAML, "templates/a.yaml": "a: b\n" + `{{ fail "say what" }}`},
		"web/templates/a.yaml:2:3")
}

func TestValuesThatCantBeRecalledFailTheRenderAndNotTheFolder(t *testing.T) {
	t.Parallel()
	folder, err := scan(t, nil, map[string]string{
		"Chart.yaml": chartYAML, "templates/a.yaml": configMap("a", `{{ uuidv4 }}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	renderer := render.New(os.Args[0], asChild)
	renderer.CPU, renderer.Time = processor, patience
	err = renderer.Render(t.Context(), render.Input{
		Folder: folder, Scope: scope(),
		Recall: func(context.Context) ([]render.Answer, error) {
			return nil, fmt.Errorf("the API server is not there")
		},
	}, func(*unstructured.Unstructured, kubeyaml.Position) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "the API server is not there") {
		t.Errorf("got %v", err)
	}
	if _, mistake := err.(*kubeyaml.Error); mistake { //nolint:errorlint // as it is
		t.Errorf("%v is taken for a mistake of the folder", err)
	}
}

// A schema that allows no other values than its own is about the chart's values, not about the configuration beside
// them.
func TestAClosedSchemaLetsTheConfigurationIn(t *testing.T) {
	t.Parallel()
	chart := map[string]string{
		"Chart.yaml":         chartYAML,
		"values.yaml":        "port: 80\n",
		"values.schema.json": `{"additionalProperties": false, "properties": {"port": {"type": "integer"}}}`,
		"templates/a.yaml":   configMap("a", `"{{ .Values.port }}-{{ .Values.configuration.tier }}"`),
	}
	configured := func(files map[string]string) (string, error) {
		folder, err := scan(t, nil, files)
		if err != nil {
			t.Fatal(err)
		}
		in := render.Input{Folder: folder, Scope: scope()}
		in.Scope.Configuration = map[string]any{"tier": "gold"}
		renderer := render.New(os.Args[0], asChild)
		renderer.CPU, renderer.Time = processor, patience
		var text string
		err = renderer.Render(t.Context(), in, func(obj *unstructured.Unstructured, _ kubeyaml.Position) error {
			text, _, _ = unstructured.NestedString(obj.Object, "data", "a")
			return nil
		})
		return text, err
	}
	if got, err := configured(chart); err != nil || got != "80-gold" {
		t.Errorf("got %q %v", got, err)
	}
	chart["values.yaml"] = "port: 80\nother: 1\n"
	if _, err := configured(chart); err == nil || !strings.Contains(err.Error(), "other") {
		t.Errorf("a value that the schema does not know: %v", err)
	}
	chart["values.yaml"] = "port: 80\n"
	chart["values.schema.json"] = `{"properties": {"configuration": {"properties": {"tier": {"const": "silver"}}}}}`
	if _, err := configured(chart); err == nil || !strings.Contains(err.Error(), "tier") {
		t.Errorf("a schema that is about the configuration: %v", err)
	}
}
