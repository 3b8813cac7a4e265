package desired

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
)

// Values are the entries of a configuration as templates see them.
func Values(c *deliveryv1.Configuration) (map[string]any, error) {
	if len(c.GetEntries()) == 0 {
		return nil, nil
	}
	out := make(map[string]any, len(c.GetEntries()))
	for _, e := range c.GetEntries() {
		switch v := e.GetValue().(type) {
		case *deliveryv1.ConfigurationEntry_Text:
			out[e.GetName()] = v.Text
		case *deliveryv1.ConfigurationEntry_Number:
			out[e.GetName()] = v.Number
		case *deliveryv1.ConfigurationEntry_Flag:
			out[e.GetName()] = v.Flag
		case *deliveryv1.ConfigurationEntry_Json:
			var value any
			if json.Unmarshal([]byte(v.Json), &value) != nil {
				return nil, fmt.Errorf("configuration %q is not JSON", e.GetName()) // the decoder would quote it
			}
			out[e.GetName()] = value
		default:
			return nil, fmt.Errorf("configuration %q is of a kind that this agent does not know: upgrade it", e.GetName())
		}
	}
	return out, nil
}

// Masked stands for a secret, or for a text that may have secrets in it.
const Masked = "***"

const (
	// shortest secret that is looked for in texts: anything shorter is in any text.
	shortest = 4
	// shortestLine of a secret of several lines that is looked for by itself.
	shortestLine = 8
	// mostFormer bounds the former secrets of a service, in bytes: what is older than that many was replaced long ago.
	mostFormer = 64 << 10
)

// Mask returns a function that takes the service's secrets out of texts for people, those that it had before too, and
// more; nil: there are none. Renderers and the API server may quote them in what they say about an object.
func (s Service) Mask(more ...string) func(string) string {
	var found []string
	for _, secret := range slices.Concat(s.secrets(), s.Former, s.Hidden, more) {
		found = append(found, forms(secret)...)
	}
	if len(found) == 0 {
		return nil
	}
	slices.SortFunc(found, func(a, b string) int { return len(b) - len(a) }) // of one that begins with another no end is left
	var pairs []string
	for _, form := range found {
		pairs = append(pairs, form, Masked)
	}
	return strings.NewReplacer(pairs...).Replace
}

// secrets are the texts of the configuration that nobody is to read, as far as they can be looked for.
func (s Service) secrets() []string {
	var found []string
	note := func(secret string) {
		if len(secret) >= shortest {
			found = append(found, secret)
		}
	}
	for _, e := range s.Configuration.GetEntries() {
		if !e.GetSecret() {
			continue
		}
		switch v := e.GetValue().(type) {
		case *deliveryv1.ConfigurationEntry_Text:
			note(v.Text)
			for line := range strings.Lines(v.Text) {
				if line = strings.TrimSpace(line); len(line) >= shortestLine {
					note(line)
				}
			}
		case *deliveryv1.ConfigurationEntry_Json:
			note(v.Json)
			var tree any
			if json.Unmarshal([]byte(v.Json), &tree) == nil {
				leaves(tree, note)
			}
		}
	}
	return found
}

// SecretsIn are the texts of a value of a Secret object that nobody is to read, as far as they can be looked for: all
// of it, its lines, what stands behind a name in them, and what JSON holds.
func SecretsIn(value string) []string {
	var found []string
	note := func(secret string, least int) {
		if secret = strings.TrimSpace(secret); len(secret) >= least {
			found = append(found, secret)
		}
	}
	note(value, shortest)
	var tree any
	if json.Unmarshal([]byte(value), &tree) == nil {
		leaves(tree, func(leaf string) { note(leaf, shortest) })
		return found
	}
	for line := range strings.Lines(value) {
		note(line, shortestLine)
		if at := strings.IndexAny(line, ":="); at >= 0 {
			note(strings.Trim(strings.TrimSpace(line[at+1:]), `"'`), shortestLine)
		}
	}
	return found
}

// maxHidden bounds the texts of a service that are hidden, in bytes.
const maxHidden = 1 << 20

// secretTexts are the texts of a secret that can be looked for: all of it, its lines, and the values of YAML.
func secretTexts(secret string) []string {
	var found []string
	note := func(text string, least int) {
		if len(text) >= least && !slices.Contains(found, text) {
			found = append(found, text)
		}
	}
	var tree any
	if err := yaml.Unmarshal([]byte(secret), &tree); err == nil {
		leaves(tree, func(text string) {
			note(text, shortest)
			for line := range strings.Lines(text) {
				note(strings.TrimSpace(line), shortestLine)
			}
		})
	}
	note(strings.TrimSpace(secret), shortest)
	return found
}

// Texts are the texts of a JSON value that can be looked for.
func Texts(value json.RawMessage) []string {
	var found []string
	var tree any
	if json.Unmarshal(value, &tree) == nil {
		leaves(tree, func(text string) {
			if len(text) >= shortestLine {
				found = append(found, text)
			}
		})
	}
	return found
}

// former are the secrets of before that are none of now's any more, the latest last: the cluster may still show them.
func former(before, now Service) []string {
	all := slices.Concat(before.Former, before.secrets())
	current := now.secrets()
	all = slices.DeleteFunc(all, func(secret string) bool { return slices.Contains(current, secret) })
	slices.Reverse(all)
	var kept []string
	bytes := 0
	for _, secret := range all {
		if bytes += len(secret); bytes > mostFormer {
			break
		}
		if !slices.Contains(kept, secret) {
			kept = append(kept, secret)
		}
	}
	slices.Reverse(kept)
	return kept
}

// forms are how a secret may stand in a text.
func forms(secret string) []string {
	quoted, _ := json.Marshal(secret) // text has a form
	out := []string{secret, base64.StdEncoding.EncodeToString([]byte(secret))}
	for _, form := range []string{strings.Trim(string(quoted), `"`), strings.Trim(fmt.Sprintf("%q", secret), `"`)} {
		if form != secret {
			out = append(out, form)
		}
	}
	return out
}

// leaves calls note with the texts of a tree.
func leaves(tree any, note func(string)) {
	switch node := tree.(type) {
	case map[string]any:
		for _, child := range node {
			leaves(child, note)
		}
	case []any:
		for _, child := range node {
			leaves(child, note)
		}
	case string:
		note(node)
	}
}
