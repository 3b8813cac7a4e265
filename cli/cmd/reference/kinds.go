package main

import (
	"fmt"
	"strings"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/reflect/protoreflect"

	"fairlead.dev/cli/internal/schema"
	"fairlead.dev/platform/catalogyaml"
	"fairlead.dev/platform/kind"
)

const kindsHead = `# Reference of YAML

What a file of ` + "`fairlead apply`" + ` may say, made from the [contract](../../proto/fairlead/console/v1) by ` + "`make gen`" + `: change the comments there. ` + "`fairlead schema`" + `
prints the same for editors. Every resource has ` + "`apiVersion: fairlead.dev/v1`, `kind`, `metadata` and `spec`" + `; [the catalog](../catalog.md) says how they are applied. Fields in bold are required.

`

// describeKinds writes a section for each kind and, behind them, one for each message that kinds are made of.
func describeKinds(messages []protoreflect.MessageDescriptor, words schema.Comments) (string, error) {
	p := page{words: words}
	p.text.WriteString(kindsHead)
	for _, k := range kind.All() {
		fmt.Fprintf(&p.text, "- [%s](#%s)\n", k.Name(), k.Singular())
	}
	p.text.WriteString("\n")
	seen := map[protoreflect.Name]bool{}
	for _, md := range messages {
		if seen[md.Name()] {
			return "", fmt.Errorf("two messages of the kinds are called %s: a page has one place for that name", md.Name())
		}
		seen[md.Name()] = true
		if isKind(md) {
			if err := p.writeKind(md); err != nil {
				return "", err
			}
		}
	}
	p.text.WriteString("# Parts\n\n")
	for _, md := range messages {
		if isKind(md) || specOf(md) {
			continue
		}
		p.writeHead("##", md)
		if err := p.writeTable(md); err != nil {
			return "", err
		}
	}
	return strings.TrimRight(p.text.String(), "\n") + "\n", nil
}

func isKind(md protoreflect.MessageDescriptor) bool {
	k, ok := kind.Named(string(md.Name()))
	return ok && k.New().ProtoReflect().Descriptor().FullName() == md.FullName()
}

// specOf tells a message that is the spec of the kind that its name begins with.
func specOf(md protoreflect.MessageDescriptor) bool {
	k, ok := kind.Named(strings.TrimSuffix(string(md.Name()), "Spec"))
	if !ok {
		return false
	}
	spec := k.New().ProtoReflect().Descriptor().Fields().ByName("spec")
	return spec != nil && spec.Message().FullName() == md.FullName()
}

type page struct {
	words schema.Comments
	text  strings.Builder
}

func (p *page) writeKind(md protoreflect.MessageDescriptor) error {
	p.writeHead("##", md)
	spec := md.Fields().ByName("spec")
	if spec == nil || !specOf(spec.Message()) {
		return p.writeTable(md)
	}
	// Links lead to the name of a message, also where another one has the spec as a part.
	p.writeHead("###", spec.Message())
	return p.writeTable(spec.Message())
}

func (p *page) writeHead(level string, md protoreflect.MessageDescriptor) {
	fmt.Fprintf(&p.text, "%s %s\n\n", level, md.Name())
	if text := p.words[md.FullName()]; text != "" {
		fmt.Fprintf(&p.text, "%s\n\n", escapeMarkdown(text))
	}
}

func (p *page) writeTable(md protoreflect.MessageDescriptor) error {
	var rows strings.Builder
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		if catalogyaml.OutputOnly(fd) {
			continue
		}
		rules, err := protovalidate.ResolveFieldRules(fd)
		if err != nil {
			return fmt.Errorf("rules of %s: %w", fd.FullName(), err)
		}
		name := "`" + fd.JSONName() + "`"
		if schema.MustBeThere(fd, rules) {
			name = "**" + name + "**"
		}
		fmt.Fprintf(&rows, "| %s | %s | %s |\n", name, typeOf(fd), p.fieldMeaning(fd, rules))
	}
	if rows.Len() == 0 {
		p.text.WriteString("It has no fields: `{}`.\n\n")
		return nil
	}
	p.text.WriteString("| field | value | meaning |\n|---|---|---|\n" + rows.String() + "\n")
	return nil
}

// typeOf says what a field takes, with a link where that is described.
func typeOf(fd protoreflect.FieldDescriptor) string {
	switch {
	case fd.IsMap():
		return "map of " + typeOf(fd.MapValue())
	case fd.IsList():
		return "list of " + typeName(fd)
	}
	return typeName(fd)
}

func typeName(fd protoreflect.FieldDescriptor) string {
	switch fd.Kind() {
	case protoreflect.MessageKind:
		switch fd.Message().FullName() {
		case "google.protobuf.Duration":
			return "duration"
		case "google.protobuf.Timestamp":
			return "time"
		}
		return fmt.Sprintf("[%s](#%s)", fd.Message().Name(), strings.ToLower(string(fd.Message().Name())))
	case protoreflect.EnumKind:
		return "`" + strings.Join(catalogyaml.EnumNames(fd.Enum()), "`, `") + "`"
	case protoreflect.BoolKind:
		return "`true` or `false`"
	case protoreflect.StringKind:
		return "text"
	case protoreflect.DoubleKind:
		return "number"
	default:
		return "whole number"
	}
}

// fieldMeaning is the comment of a field, with the comments of its values and its bounds.
func (p *page) fieldMeaning(fd protoreflect.FieldDescriptor, rules *validate.FieldRules) string {
	parts := []string{escapeMarkdown(p.words[fd.FullName()])}
	if fd.Kind() == protoreflect.EnumKind {
		for i, name := range catalogyaml.EnumNames(fd.Enum()) {
			if of := p.words[fd.Enum().Values().Get(i+1).FullName()]; of != "" {
				parts = append(parts, "`"+name+"`: "+escapeMarkdown(of))
			}
		}
	}
	if most := rules.GetString().GetMaxLen(); most > 0 {
		parts = append(parts, fmt.Sprintf("At most %d characters.", most))
	}
	if most := rules.GetRepeated().GetMaxItems(); most > 0 {
		parts = append(parts, fmt.Sprintf("At most %d.", most))
	}
	if most := rules.GetMap().GetMaxPairs(); most > 0 {
		parts = append(parts, fmt.Sprintf("At most %d.", most))
	}
	return strings.TrimSpace(strings.Join(strings.Fields(strings.Join(parts, " ")), " "))
}

// escapeMarkdown keeps Markdown from reading a comment as more than words. What stands between backticks is left as it
// is.
func escapeMarkdown(text string) string {
	parts := strings.Split(text, "`")
	for i := range parts {
		if i%2 == 0 {
			parts[i] = strings.NewReplacer("<", `\<`, "*", `\*`, "[", `\[`, "|", `\|`).Replace(parts[i])
		} else {
			parts[i] = strings.ReplaceAll(parts[i], "|", `\|`)
		}
	}
	return strings.Join(parts, "`")
}
