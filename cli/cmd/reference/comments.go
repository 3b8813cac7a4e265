package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"fairlead.dev/cli/internal/schema"
)

// readComments takes the comments of messages from the Go code that is generated of them: descriptors in a program have
// none.
func readComments(gen string, messages []protoreflect.MessageDescriptor) (schema.Comments, error) {
	r := reader{gen: gen, files: map[string]*goFile{}, words: schema.Comments{}}
	for _, md := range messages {
		of, err := r.readFile(md.ParentFile())
		if err != nil {
			return nil, err
		}
		r.readMessage(of, md)
		for i := range md.Fields().Len() {
			fd := md.Fields().Get(i)
			if fd.IsMap() {
				fd = fd.MapValue()
			}
			if fd.Kind() != protoreflect.EnumKind {
				continue
			}
			of, err := r.readFile(fd.Enum().ParentFile())
			if err != nil {
				return nil, err
			}
			r.readEnum(of, fd.Enum())
		}
	}
	return r.words, nil
}

type reader struct {
	gen   string
	files map[string]*goFile
	words schema.Comments
}

// goFile is what a generated file says of its types.
type goFile struct {
	types  map[string]string            // comments of types
	fields map[string]map[string]string // comments of fields, by their names in proto; those of a oneof are types of their own
	values map[string]string            // comments of constants
}

func (r reader) readFile(fd protoreflect.FileDescriptor) (*goFile, error) {
	path := filepath.Join(r.gen, filepath.FromSlash(strings.TrimSuffix(fd.Path(), ".proto")+".pb.go"))
	if of := r.files[path]; of != nil {
		return of, nil
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("read the comments of %s: %w", fd.Path(), err)
	}
	of := &goFile{map[string]string{}, map[string]map[string]string{}, map[string]string{}}
	for _, decl := range parsed.Decls {
		if general, ok := decl.(*ast.GenDecl); ok {
			of.noteTypes(general)
		}
	}
	r.files[path] = of
	return of, nil
}

func (f *goFile) noteTypes(decl *ast.GenDecl) {
	for _, spec := range decl.Specs {
		switch spec := spec.(type) {
		case *ast.ValueSpec:
			for _, name := range spec.Names {
				f.values[name.Name] = joinParagraphs(spec.Doc)
			}
		case *ast.TypeSpec:
			f.types[spec.Name.Name] = joinParagraphs(decl.Doc)
			if of, ok := spec.Type.(*ast.StructType); ok {
				f.noteFields(spec.Name.Name, of)
			}
		}
	}
}

func (f *goFile) noteFields(name string, of *ast.StructType) {
	fields := map[string]string{}
	for _, field := range of.Fields.List {
		if field.Tag == nil {
			continue
		}
		_, rest, ok := strings.Cut(field.Tag.Value, ",name=")
		if ok {
			proto, _, _ := strings.Cut(rest, ",")
			fields[proto] = joinParagraphs(field.Doc)
		}
	}
	f.fields[name] = fields
}

func (r reader) readMessage(of *goFile, md protoreflect.MessageDescriptor) {
	name := goName(md)
	r.keepComment(md.FullName(), of.types[name])
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		text, ok := of.fields[name][string(fd.Name())]
		for wrapper, fields := range of.fields {
			if !ok && strings.HasPrefix(wrapper, name+"_") && fd.ContainingOneof() != nil && len(fields) == 1 {
				text, ok = fields[string(fd.Name())]
			}
		}
		r.keepComment(fd.FullName(), text)
	}
}

func (r reader) readEnum(of *goFile, ed protoreflect.EnumDescriptor) {
	for i := range ed.Values().Len() {
		value := ed.Values().Get(i)
		prefix := goName(ed)
		if parent, ok := ed.Parent().(protoreflect.MessageDescriptor); ok {
			prefix = goName(parent)
		}
		r.keepComment(value.FullName(), of.values[prefix+"_"+string(value.Name())])
	}
}

func (r reader) keepComment(name protoreflect.FullName, text string) {
	if text != "" {
		r.words[name] = text
	}
}

// goName is what the generated code calls a message or an enum.
func goName(d protoreflect.Descriptor) string {
	return strings.ReplaceAll(strings.TrimPrefix(string(d.FullName()), string(d.ParentFile().Package())+"."), ".", "_")
}

// joinParagraphs returns a comment with a line for each paragraph.
func joinParagraphs(doc *ast.CommentGroup) string {
	var paragraphs []string
	for paragraph := range strings.SplitSeq(doc.Text(), "\n\n") {
		if text := strings.Join(strings.Fields(paragraph), " "); text != "" {
			paragraphs = append(paragraphs, text)
		}
	}
	return strings.Join(paragraphs, "\n\n")
}
