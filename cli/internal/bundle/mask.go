package bundle

import (
	"bytes"
	"regexp"
	"slices"
)

// Masked stands for what was taken out.
const Masked = "***"

// leastValue is how long a known value must be to be masked wherever it appears: shorter ones would take words of the text along.
const leastValue = 6

// secretKey is a name whose value is masked: PASSWORD, client_secret, apiToken. Names of what only refers to a secret are none, see refers.
const secretKey = `[\w.-]*(?:password|passwd|passphrase|secret|token|api[_-]?key|private[_-]?key|access[_-]?key|credentials?|authorization|cookie)[\w.-]*` //nolint:gosec // names, no value

// quotedOrRest is a value in quotes, or up to what ends it in YAML.
const quotedOrRest = `"(?:[^"\\\n]|\\[^\n])*"|'[^'\n]*'|[^\s"'{\[|>,}][^\n,}]*`

var (
	// refers are names whose values say where a secret is, or how many there are.
	refers = regexp.MustCompile(`(?i)^(?:secrets?|tokens|.*(?:file|name|names|path|ref|url|prefix|expire|expires|time|uid|total|count|seconds|bytes|kind|requests))$`)
	// pair is a name and its value in YAML, JSON, an environment, a query, a log line or a flag. Groups: all before the value, the name, the value.
	pair = regexp.MustCompile(`(?i)(\\?["']?(` + secretKey + `)\\?["']?[ \t]*[:=][ \t]*)(\\?"(?:[^"\\\n]|\\[^"\n])*\\?"|'[^'\n]*'|[^\s"',;&})\]]+)`)
	// entry is an entry of a configuration by its name; named is an item of a list with a name and a value, such as an environment's.
	entry = regexp.MustCompile(`(?i)(["']?(` + secretKey + `)["']?:\s*\{?\s*["']?(?:text|value)["']?:[ \t]*)(` + quotedOrRest + `)`)
	named = regexp.MustCompile(`(?i)(["']?name["']?:[ \t]*["']?(` + secretKey + `)["']?[ \t]*[,\n]\s*["']?value["']?:[ \t]*)(` + quotedOrRest + `)`)
	// yamlLine is a name and its value that go to the end of the line.
	yamlLine = regexp.MustCompile(`(?i)^(\s*(?:- )?["']?(` + secretKey + `)["']?:[ \t]+)(\S[^\n]*)`)
	// rules are secrets that are known by their form, and what takes their place.
	rules = []struct { //nolint:gochecknoglobals // a constant
		form *regexp.Regexp
		by   string
	}{
		{regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|\z)`), Masked},
		{regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)[^/\s@"'<>]+@`), "${1}" + Masked + "@"},
		{regexp.MustCompile(`(?i)\b(bearer|basic|token)([ \t]+)[A-Za-z0-9._~+/=-]{12,}`), "${1}${2}" + Masked},
		// Ours: join tokens, links, tokens of service accounts and people.
		{regexp.MustCompile(`\bfairlead(?:_|-join-|-login-)[A-Za-z0-9]{16,}(?:_[A-Za-z0-9]+)?`), Masked},
		{regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?`), Masked},
		// Of Git hosts, clouds, Vault and age.
		{regexp.MustCompile(`\b(?:gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}|xox[a-z]-[\w-]{10,}|(?:AKIA|ASIA)[A-Z0-9]{16}|hv[sb]\.[\w-]{16,}|AGE-SECRET-KEY-[A-Z0-9]{16,})`), Masked},
		// Long texts without a meaning, unless they are hexadecimal: those are digests.
		{regexp.MustCompile(`\b[A-Za-z0-9_-]*[g-zG-Z_-][A-Za-z0-9_-]{99,}`), Masked},
	}
)

// Masker takes secrets out of texts.
type Masker struct{ values [][]byte }

// NewMasker returns a Masker that knows some secrets by their values, besides those that it knows by their form.
func NewMasker(values ...string) *Masker {
	m := &Masker{}
	for _, v := range values {
		if len(v) >= leastValue {
			m.values = append(m.values, []byte(v))
		}
	}
	// A value that holds another one goes first.
	slices.SortFunc(m.values, func(a, b []byte) int { return len(b) - len(a) })
	return m
}

// Mask returns a text without its secrets.
func (m *Masker) Mask(text []byte) []byte {
	for _, v := range m.values {
		text = bytes.ReplaceAll(text, v, []byte(Masked))
	}
	for _, r := range rules {
		text = r.form.ReplaceAll(text, []byte(r.by))
	}
	text = maskLines(text)
	for _, values := range []*regexp.Regexp{named, entry, pair} {
		text = values.ReplaceAllFunc(text, func(found []byte) []byte { return maskValue(values, found) })
	}
	return text
}

// maskValue masks the third group of a match, unless the name in the second says that it is no secret.
func maskValue(form *regexp.Regexp, found []byte) []byte {
	at := form.FindSubmatchIndex(found)
	name, value := found[at[4]:at[5]], found[at[6]:at[7]]
	if refers.Match(name) || plain.Match(value) {
		return found
	}
	quote := ""
	if i := bytes.IndexAny(value, `"'`); i == 0 || i == 1 && value[0] == '\\' {
		quote = string(value[:i+1])
	}
	return slices.Concat(found[:at[6]], []byte(quote+Masked+quote), found[at[7]:])
}

// maskLines masks what only the lines of a YAML document show: values of several words, and of several lines.
func maskLines(text []byte) []byte {
	var out []byte
	block := -1 // the indentation of the name whose block of lines is left out
	for line := range bytes.Lines(text) {
		indent := len(line) - len(bytes.TrimLeft(line, " "))
		if block >= 0 && (indent > block || len(bytes.TrimSpace(line)) == 0) {
			continue
		}
		block = -1
		at := yamlLine.FindSubmatchIndex(line)
		if at == nil || refers.Match(line[at[4]:at[5]]) {
			out = append(out, line...)
			continue
		}
		switch value := line[at[6]:at[7]]; {
		case value[0] == '|' || value[0] == '>':
			block = indent
		case bytes.ContainsRune([]byte(`"'{[&*`), rune(value[0])) || plain.Match(value):
			out = append(out, line...)
			continue
		}
		out = append(append(append(out, line[:at[6]]...), Masked...), line[at[7]:]...)
	}
	return out
}

// plain are values that give nothing away, and say something.
var plain = regexp.MustCompile(`^\\?["']?(?:|\*{3}|true|false|null|none|\{.*|\[.*|<.*|\|.*|>.*|[0-9]{1,5}(?:\.[0-9]+)?[a-z]*)\\?["']?$`)
