package sink

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"
)

// functions are all that templates may call; builtins are those of them that text/template has. No function makes much
// out of little, and a range is over the events and in no other range: so a template ends soon, whatever it is.
func functions() template.FuncMap {
	return template.FuncMap{
		"upper": strings.ToUpper, "lower": strings.ToLower,
		"short":   func(text string) string { return text[:min(len(text), 8)] },
		"cut":     func(most int, text string) string { return cut(text, max(most, 0)) },
		"default": func(other, text string) string { return map[bool]string{true: other, false: text}[text == ""] },
		"json":    quoted,
	}
}

func builtins() []string {
	return []string{"and", "or", "not", "eq", "ne", "lt", "le", "gt", "ge", "len", "index"}
}

// quoted is a text, a number or the whole message as JSON.
func quoted(v any) (string, error) {
	text, err := json.Marshal(v)
	if err == nil && len(text) > maxText {
		err = fmt.Errorf("json: more than %d bytes", maxText)
	}
	return string(text), err
}

// parseTemplate reads a template that is safe to run.
func parseTemplate(name, text string) (*template.Template, error) {
	t, err := template.New(name).Option("missingkey=error").Funcs(functions()).Parse(text)
	if err != nil {
		return nil, plain(name, err)
	}
	if len(t.Templates()) > 1 {
		return nil, errors.New("has define or block, which are not for these templates: write it out")
	}
	if t.Tree == nil {
		return t, nil
	}
	return t, (&judge{tree: t.Tree, text: text}).list(t.Root, false)
}

// place is how text/template says where: template: name:3:14: executing "name" at <.X>: ...
var place = regexp.MustCompile(`^template: \w+:(\d+)(?::\d+)?: (?:executing "\w+" at (<[^>]*>): )?`)

// plain says it by line.
func plain(name string, err error) error {
	text := err.Error()
	if errors.Is(err, errTooLong) {
		return errTooLong
	}
	at := place.FindStringSubmatch(text)
	if at == nil {
		return errors.New(strings.TrimPrefix(text, "template: "+name+": "))
	}
	what := strings.NewReplacer("in type sink.Message", "in the message", "in type sink.Event", "in an event").Replace(text[len(at[0]):])
	if at[2] != "" {
		what = at[2] + ": " + what
	}
	return fmt.Errorf("line %s: %s", at[1], what)
}

// judge walks over a template.
type judge struct {
	tree *parse.Tree
	text string
}

func (j *judge) refuse(at parse.Node, format string, args ...any) error {
	line := 1 + strings.Count(j.text[:min(int(at.Position()), len(j.text))], "\n")
	return fmt.Errorf("line %d: "+format, append([]any{line}, args...)...)
}

func (j *judge) list(list *parse.ListNode, ranging bool) error {
	if list == nil {
		return nil
	}
	for _, n := range list.Nodes {
		if err := j.node(n, ranging); err != nil {
			return err
		}
	}
	return nil
}

func (j *judge) node(n parse.Node, ranging bool) error {
	switch n := n.(type) {
	case *parse.TextNode, *parse.CommentNode, *parse.BreakNode, *parse.ContinueNode:
		return nil
	case *parse.ActionNode:
		return j.pipe(n.Pipe)
	case *parse.IfNode:
		return j.branch(&n.BranchNode, ranging)
	case *parse.WithNode:
		return j.branch(&n.BranchNode, ranging)
	case *parse.RangeNode:
		if ranging {
			return j.refuse(n, "a range within a range")
		}
		if over := n.Pipe.Cmds[0].String(); len(n.Pipe.Cmds) != 1 || over != ".Events" && over != "$.Events" {
			return j.refuse(n, "range is for .Events only")
		}
		return j.branch(&n.BranchNode, true)
	}
	return j.refuse(n, "%s is not for these templates", n)
}

func (j *judge) branch(b *parse.BranchNode, ranging bool) error {
	return errors.Join(j.pipe(b.Pipe), j.list(b.List, ranging), j.list(b.ElseList, ranging))
}

func (j *judge) pipe(p *parse.PipeNode) error {
	if p == nil {
		return nil
	}
	for _, cmd := range p.Cmds {
		for _, arg := range cmd.Args {
			if err := j.arg(arg); err != nil {
				return err
			}
		}
	}
	return nil
}

func (j *judge) arg(n parse.Node) error {
	switch n := n.(type) {
	case *parse.PipeNode:
		return j.pipe(n)
	case *parse.ChainNode:
		return j.arg(n.Node)
	case *parse.IdentifierNode:
		if _, ok := functions()[n.Ident]; !ok && !slices.Contains(builtins(), n.Ident) {
			var known []string
			for name := range functions() {
				known = append(known, name)
			}
			known = append(known, builtins()...)
			slices.Sort(known)
			return j.refuse(n, "function %q is not for these templates: there are %s", n.Ident, strings.Join(known, ", "))
		}
	}
	return nil
}

var errTooLong = fmt.Errorf("makes more than %d bytes: use cut", maxText)

// bounded is a text of at most so many bytes.
type bounded struct{ strings.Builder }

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxText {
		return 0, errTooLong
	}
	return b.Builder.Write(p)
}

// render makes a text of a message.
func render(name, text string, m Message) (string, error) {
	t, err := parseTemplate(name, text)
	if err != nil {
		return "", err
	}
	var out bounded
	if err := t.Execute(&out, m); err != nil {
		return "", plain(name, err)
	}
	return out.String(), nil
}
