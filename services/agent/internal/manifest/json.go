package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// jsonFile reads one or more JSON values, one after the other.
func (p *Reader) jsonFile(at Position, data []byte) error {
	if marks := (chunk{data: data}).marks(); marks > maxMarks {
		return &Error{Position: at, Problem: fmt.Sprintf("the file has more than %d values. Split it", maxMarks)}
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	for {
		begin := skipSpace(data, decoder.InputOffset())
		var value any
		err := decoder.Decode(&value)
		if errors.Is(err, io.EOF) {
			return nil
		}
		at.Document++
		at.Line = lineOf(data, begin)
		if err != nil {
			return &Error{Position: at, Line: jsonErrorLine(data, begin, err), Problem: "is no valid JSON: " + err.Error()}
		}
		if value, err = p.jsonValue(at, value, 0); err != nil {
			return err
		}
		if err := p.document(at, value); err != nil {
			return err
		}
	}
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
