package kubeyaml

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"unicode"
)

// mixedFile reads a file that begins with "{", as kubectl does: JSON values, one after the other, until that fails with
// no more than one of them read; the rest is YAML.
func (p *Reader) mixedFile(at Position, data []byte) error {
	marks := (chunk{data: data}).marks()
	isJSON := path.Ext(at.File) == ".json"
	if marks > maxMarks && isJSON {
		return &Error{Position: at, Problem: fmt.Sprintf("the file has more than %d values. Split it", maxMarks)}
	} else if marks > maxMarks {
		return p.chunks(at, plainChunks(data, 1), Plain)
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	for {
		end := decoder.InputOffset()
		begin := skipSpace(data, end)
		var value any
		err := decoder.Decode(&value)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			mistake := &Error{Position: at, Line: jsonErrorLine(data, begin, err), Problem: "is no valid JSON: " + err.Error()}
			mistake.Position.Document++
			if at.Document > 1 {
				return mistake
			}
			rest := afterLine(data[end:])
			err = p.chunks(at, plainChunks(rest, lineOf(data, int64(len(data)-len(rest)))), Plain)
			if syntax, ok := errors.AsType[*Error](err); ok && isJSON && strings.HasPrefix(syntax.Problem, invalidYAML) {
				return mistake
			}
			return err
		}
		at.Document++
		at.Line = lineOf(data, begin)
		if value, err = p.jsonValue(at, value, 0); err != nil {
			return err
		}
		if value == nil {
			continue
		}
		if err := p.take(at, value); err != nil {
			return err
		}
	}
}

// looksLikeJSON looks no farther than kubectl does.
func looksLikeJSON(data []byte) bool {
	const far = 4096
	return bytes.HasPrefix(bytes.TrimLeftFunc(data[:min(far, len(data))], unicode.IsSpace), []byte("{"))
}

// afterLine leaves out space at the beginning, up to the end of its line.
func afterLine(data []byte) []byte {
	rest := bytes.TrimLeftFunc(data, unicode.IsSpace)
	if end := bytes.IndexByte(data[:len(data)-len(rest)], '\n'); end >= 0 {
		return data[end+1:]
	}
	return rest
}

// jsonValue brings numbers to int64 and float64, in place, and holds the limits.
func (p *Reader) jsonValue(at Position, value any, depth int) (any, error) {
	if depth > maxDepth {
		return nil, &Error{Position: at, Line: at.Line, Problem: fmt.Sprintf("is nested more than %d levels deep", maxDepth)}
	}
	if p.nodes++; p.nodes > maxNodes {
		p.exhausted = true
		return nil, &Error{Position: at, Line: at.Line, Problem: fmt.Sprintf("the folder has more than %d values. Split the service", maxNodes)}
	}
	var err error
	switch value := value.(type) {
	case map[string]any:
		for key, item := range value {
			if value[key], err = p.jsonValue(at, item, depth+1); err != nil {
				return nil, err
			}
		}
	case []any:
		for i, item := range value {
			if value[i], err = p.jsonValue(at, item, depth+1); err != nil {
				return nil, err
			}
		}
	case json.Number:
		if whole, err := value.Int64(); err == nil {
			return whole, nil
		}
		number, err := value.Float64()
		if err != nil {
			return nil, &Error{Position: at, Line: at.Line, Problem: "holds a number that is out of range"}
		}
		return number, nil
	}
	return value, nil
}

func skipSpace(data []byte, offset int64) int64 {
	for offset < int64(len(data)) && bytes.IndexByte([]byte(" \t\r\n"), data[offset]) >= 0 {
		offset++
	}
	return offset
}

func lineOf(data []byte, offset int64) int {
	return 1 + bytes.Count(data[:min(offset, int64(len(data)))], []byte("\n"))
}

func jsonErrorLine(data []byte, begin int64, err error) int {
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return lineOf(data, syntax.Offset)
	}
	return lineOf(data, begin)
}
