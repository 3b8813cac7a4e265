package child

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"fairlead.dev/platform/remotebase"
)

// edit replaces a part of a file.
type edit struct {
	from, to int // bytes
	text     string
}

// withBases points the references of a kustomization to other repositories at where the artifact has these, in the text
// itself: what else it says stays as it is. dir is the folder that kustomize sees the kustomization in.
func (f *folder) withBases(dir string, content []byte) []byte {
	if !f.hasBases() {
		return content
	}
	var root yaml.Node
	if yaml.NewDecoder(bytes.NewReader(content)).Decode(&root) != nil || len(root.Content) == 0 {
		return content // for which kustomize has the words
	}
	var edits []edit
	fields := root.Content[0].Content
	for i := 0; i+1 < len(fields); i += 2 {
		switch fields[i].Value {
		case "resources", "bases", "components":
			for _, item := range fields[i+1].Content {
				if place, ok := f.placeOf(item.Value); ok && item.Kind == yaml.ScalarNode {
					edits = append(edits, replaceText(content, item, upTo(dir)+place)...)
				}
			}
		}
	}
	content = bytes.Clone(content)
	for _, e := range slices.Backward(edits) { // they are in the order of the file
		content = slices.Replace(content, e.from, e.to, []byte(e.text)...)
	}
	return content
}

func (f *folder) hasBases() bool {
	_, ok := f.service.Node(remotebase.FolderName)
	return ok
}

// placeOf is where the artifact has a base; false: nowhere, or it is none.
func (f *folder) placeOf(text string) (place string, ok bool) {
	base, isRemote, err := remotebase.Parse(text)
	if !isRemote || err != nil {
		return "", false
	}
	to, err := f.service.Follow(base.Place())
	if err != nil {
		return "", false
	}
	is, _ := f.service.Node(to)
	return base.Place(), is.Folder
}

// upTo leads from a folder to the root of the artifact.
func upTo(dir string) string {
	if dir == "." {
		return ""
	}
	return strings.Repeat("../", strings.Count(dir, "/")+1)
}

// replaceText changes a text of one line; none: it is written in a way that this does not know, such as behind an
// anchor.
func replaceText(content []byte, node *yaml.Node, with string) []edit {
	written := node.Value
	switch node.Style {
	case yaml.DoubleQuotedStyle:
		written = `"` + written + `"`
	case yaml.SingleQuotedStyle:
		written = "'" + written + "'"
	case 0:
	default:
		return nil
	}
	from := 0
	for range node.Line - 1 {
		i := bytes.IndexByte(content[from:], '\n')
		if i < 0 {
			return nil
		}
		from += i + 1
	}
	line, _, _ := strings.Cut(string(content[from:]), "\n")
	for range node.Column - 1 {
		_, n := utf8.DecodeRuneInString(line)
		from, line = from+n, line[n:]
	}
	text, err := json.Marshal(with)
	if err != nil || !strings.HasPrefix(line, written) {
		return nil
	}
	return []edit{{from, from + len(written), string(text)}}
}

// adviseRemedy says what to do about a reference that would be fetched.
func (f *folder) adviseRemedy(text string) string {
	if _, ok := f.placeOf(text); ok {
		return "Write it on one line, without an anchor or alias"
	}
	if _, isRemote, err := remotebase.Parse(text); isRemote && err == nil {
		return "Allow its host in the source (git.allow), in the kustomization at the service's path; or copy it into the folder"
	}
	return "Copy it into the folder"
}
