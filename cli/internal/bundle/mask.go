package bundle

import (
	"bytes"
	"regexp"
	"slices"
)

// Masked stands for what was taken out.
const Masked = "***"

// leastValue is how long a known value must be to be masked wherever it appears: shorter ones would take words of the
// text along.
const leastValue = 6

// secretKey is a name whose value is masked: PASSWORD, client_secret, apiToken. Names of what only refers to a secret
// are none, see refers.
const secretKey = `[\w.-]*(?:password|passwd|pwd|passphrase|secret|token|(?:api|private|access|master|encryption|signing|session)[_-]?key|credentials?|authorization|cookie)[\w.-]*` //nolint:gosec // names, no value

// quoted is a value in quotes.
const quoted = `"(?:[^"\\\n]|\\[^\n])*"|'(?:[^'\n]|'')*'`

// quotedOrRest is a value in quotes, or up to what ends it in YAML.
const quotedOrRest = quoted + `|[^\s"'{\[|>,}][^\n,}]*`

// quotedOrWord is a value in quotes, also in those of a text within JSON and in quotes that nothing closes, or a word
// with the marks within it.
const quotedOrWord = quoted + `|\\"(?:[^"\\\n]|\\\\\\"|\\[^"\n])*\\"|"[^"\n]+|[^\s"',;&})\]]+(?:[,;&})\]]+[^\s"',;&})\]]+)*`

var (
	// refers are names whose values say where a secret is.
	refers = regexp.MustCompile(`(?i)(?:file|name|names|path|ref|url|prefix|expire|expires|time|uid|kind)$`)
	// urlPath is a URL with a path: that of a webhook is its secret.
	urlPath = regexp.MustCompile(`(?i)^\\?["']?https?://[^/\s]+/[^\s"'\\]`)
	// counts are names whose values are numbers, if they are.
	counts = regexp.MustCompile(`(?i)(?:tokens|secrets|count|total|requests|seconds|minutes|hours|bytes|size|length|limit|ttl)$`)
	number = regexp.MustCompile(`^\\?["']?[0-9]+(?:\.[0-9]+)?[a-z]{0,2}\\?["']?$`)
	// secretName is the name of a Secret, as resources in YAML give it.
	secretName = regexp.MustCompile(`^[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?$`)
	// directory is the value of PWD in an environment.
	directory = regexp.MustCompile(`^/(?:[\w.-]+/)*[\w.-]*$`)
	// nextField is where the next field of a query begins.
	nextField = regexp.MustCompile(`&[\w.-]+=[^=]`)
	// pair is a name and its value in YAML, JSON, an environment, a query, a log line or a flag. Groups: all before the
	// value, the name, the value.
	pair = regexp.MustCompile(`(?i)(\\?["']?(` + secretKey + `)\\?["']?[ \t]*[:=][ \t]*)(` + quotedOrWord + `)`)
	// flag is a flag with its value as the next word, line or item.
	flag = regexp.MustCompile(`(?im)((?:^|[\s"'\[(,])--?(` + secretKey +
		`)(?:["']?[ \t]*,\s*|["']?[ \t]*\r?\n[ \t]*(?:- )?|[ \t]+))(` + quoted + `|[^\s"',;&})\]-][^\s"'})\]]*)`)
	// entry is an entry of a configuration by its name; named is an item of a list with a name and a value, such as an
	// environment's.
	entry = regexp.MustCompile(`(?i)(["']?(` + secretKey + `)["']?:\s*\{?\s*["']?(?:text|value)["']?:[ \t]*)(` + quotedOrRest + `)`)
	named = regexp.MustCompile(`(?i)(["']?name["']?:[ \t]*["']?(` + secretKey + `)["']?[ \t]*[,\n]\s*["']?value["']?:[ \t]*)(` + quotedOrRest + `)`)
	// yamlLine is a name and its value that go to the end of the line.
	yamlLine = regexp.MustCompile(`(?i)^(\s*(?:- )?["']?(` + secretKey + `)["']?:[ \t]+)(\S[^\n]*)`)
	// yamlBlock is the beginning of a value that goes on in the lines below.
	yamlBlock = regexp.MustCompile(`^(?:[&!]\S*[ \t]+)*(?:[|>]|[&!]\S*\s*$)`)
	// yamlQuoted and yamlFlow are values that the other forms mask: in quotes that end, and with names of their own.
	yamlQuoted = regexp.MustCompile(`^(?:` + quoted + `)`)
	yamlFlow   = regexp.MustCompile(`^[{\[](?:.*[{\[\]},])?\s*$`)
	// keyEnd is a private key whose beginning was cut off.
	keyEnd = regexp.MustCompile(`(?:[ \t]*[A-Za-z0-9+/=]{16,}(?:\\n|\r?\n))*[ \t]*[A-Za-z0-9+/=]+(?:\\n|\r?\n)[ \t]*-----END [A-Z ]*PRIVATE KEY-----`)
	// rules are secrets that are known by their form, and what takes their place.
	rules = []struct { //nolint:gochecknoglobals // a constant
		form *regexp.Regexp
		by   string
	}{
		{regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|\z)`), Masked},
		{regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)[^/\s"'<>]+@`), "${1}" + Masked + "@"},
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
	if bytes.Contains(text, []byte("PRIVATE KEY-----")) {
		text = keyEnd.ReplaceAll(text, []byte(Masked))
	}
	text = maskLines(text)
	for _, values := range []*regexp.Regexp{named, entry, flag, pair} {
		text = values.ReplaceAllFunc(text, func(found []byte) []byte { return maskValue(values, found) })
	}
	return text
}

// maskValue masks the third group of a match, unless the name in the second says that it is no secret.
func maskValue(form *regexp.Regexp, found []byte) []byte {
	at := form.FindSubmatchIndex(found)
	name, value, rest := found[at[4]:at[5]], found[at[6]:at[7]], found[at[7]:]
	if form == pair && !bytes.ContainsAny(value[:1], `\"'`) {
		if fields := nextField.FindAllIndex(value, -1); fields != nil {
			var out []byte
			from := 0
			for _, field := range fields {
				out = append(out, maskPairs(found[from:at[6]+field[0]])...)
				from = at[6] + field[0]
			}
			return append(append(out, maskPairs(found[from:at[7]])...), rest...)
		}
	}
	// The line below a flag without a value is the next field of a description.
	nextLine := form == flag && bytes.HasSuffix(value, []byte(":"))
	if nextLine || isPlain(found[at[5]:at[6]], name, value) {
		return slices.Concat(found[:at[6]], value, rest)
	}
	quote := ""
	if i := bytes.IndexAny(value, `"'`); i == 0 || i == 1 && value[0] == '\\' {
		quote = string(value[:i+1])
	}
	return slices.Concat(found[:at[6]], []byte(quote+Masked+quote), rest)
}

// maskPairs masks the values in one field of a query.
func maskPairs(field []byte) []byte {
	return pair.ReplaceAllFunc(field, func(found []byte) []byte { return maskValue(pair, found) })
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
		if at == nil {
			out = append(out, line...)
			continue
		}
		value := line[at[6]:at[7]]
		isQuoted := value[0] == '"' || value[0] == '\''
		switch isBlock := yamlBlock.Match(value); {
		case isPlain(line[at[5]:at[6]], line[at[4]:at[5]], bytes.TrimSpace(value)) && !isBlock, yamlQuoted.Match(value),
			yamlFlow.Match(value):
			out = append(out, line...)
			continue
		case isBlock, isQuoted:
			block = indent
		}
		out = append(append(append(out, line[:at[6]]...), Masked...), line[at[7]:]...)
	}
	return out
}

// isPlain reports whether the value of a name is no secret; between is what stands between the two.
func isPlain(between, name, value []byte) bool {
	inYAML := bytes.HasSuffix(between, []byte(": "))
	switch {
	case plain.Match(value):
		return true
	case flowName.Match(value):
		return inYAML
	case counts.Match(name) && number.Match(value):
		return true
	case string(name) == "secret" || string(name) == "secrets":
		return inYAML && secretName.Match(value)
	case string(name) == "PWD" || string(name) == "OLDPWD":
		return directory.Match(value)
	}
	return refers.Match(name) && !urlPath.Match(value)
}

var (
	// plain are values that give nothing away, and say something: words, and the beginnings of what the lines or names
	// below hold.
	plain = regexp.MustCompile(`^(?:\\?["']?(?:|\*{3}|true|false|null|none|<set(?: [^<>]*>)?)\\?["']?|[{\[]+\\?|[|>][0-9+-]*)$`)
	// flowName is the first name of a mapping in one line of YAML.
	flowName = regexp.MustCompile(`^[{\[]+[\w.-]+:$`)
)
