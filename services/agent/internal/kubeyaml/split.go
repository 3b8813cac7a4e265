package kubeyaml

import (
	"bytes"
	"fmt"
	"iter"
	"regexp"
	"unicode"
)

// Dialect says whose rules a file is split and read by.
type Dialect int

const (
	// Plain is a manifest as kubectl reads it.
	Plain Dialect = iota
	// HelmTemplate is the output of a template of a chart, as Helm splits it, stores it, and then reads it with
	// kubectl's code.
	HelmTemplate
	// HelmCRD is a file of a chart's crds/: Helm splits it as kubectl does, and takes the last of two equal keys.
	HelmCRD
)

// helmSeparator is Helm's own.
const helmSeparator = `(?m)^---[ \t]*`

// split cuts a file into documents.
func split(data []byte, as Dialect) iter.Seq2[chunk, error] {
	if as == HelmTemplate {
		return helmChunks(data)
	}
	return plainChunks(data, 1)
}

// plainChunks splits at lines that begin with "---", as kubectl does: after it only a comment is allowed. The separator
// of the first document stays part of it. The last line is ended. Of a chunk with an error nothing else is set.
func plainChunks(data []byte, line int) iter.Seq2[chunk, error] {
	return func(yield func(chunk, error) bool) {
		var start, offset int
		first := line
		for text := range bytes.Lines(data) {
			if rest, ok := bytes.CutPrefix(text, []byte("---")); ok {
				if rest = bytes.TrimSpace(rest); len(rest) > 0 && rest[0] != '#' {
					yield(chunk{}, &Error{Line: line, Problem: fmt.Sprintf(
						"the separator --- is followed by %.40q. kubectl takes nothing but a comment there: begin a new line", rest)})
					return
				}
				if offset > start {
					if !yield(chunk{data: data[start:offset], line: first}, nil) {
						return
					}
					start, first = offset+len(text), line+1
				}
			}
			offset += len(text)
			line++
		}
		if offset > start {
			yield(chunk{data: endLine(data[start:offset]), line: first}, nil)
		}
	}
}

// helmChunks splits as Helm's pkg/release/v1/util does, at every line that begins with "---", whatever follows it.
// Space is taken off the beginning of each document and stays at its end; Helm ends each with one more line break when
// it stores it.
func helmChunks(data []byte) iter.Seq2[chunk, error] {
	return func(yield func(chunk, error) bool) {
		text := bytes.TrimLeftFunc(data, unicode.IsSpace)
		line := 1 + bytes.Count(data[:len(data)-len(text)], []byte("\n"))
		give := func(document []byte) bool {
			trimmed := bytes.TrimLeftFunc(document, unicode.IsSpace)
			first := line + bytes.Count(document[:len(document)-len(trimmed)], []byte("\n"))
			line += bytes.Count(document, []byte("\n"))
			return len(trimmed) == 0 || yield(chunk{data: append(bytes.Clone(trimmed), '\n'), line: first}, nil)
		}
		start := 0
		for _, at := range regexp.MustCompile(helmSeparator).FindAllIndex(text, -1) {
			if !give(text[start:at[0]]) {
				return
			}
			start = at[1]
		}
		give(text[start:])
	}
}

// endLine ends the last line.
func endLine(data []byte) []byte {
	if bytes.HasSuffix(data, []byte("\n")) {
		return data
	}
	return append(bytes.Clone(data), '\n')
}
