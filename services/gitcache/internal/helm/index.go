package helm

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Choose reads an index to its end and finds the version for each want. A want whose version can't be read is an error:
// see CheckVersion. After an error nothing was chosen: a part of an index may lack the highest version.
//
// An index can have a hundred MiB and more, so its YAML is cut into its versions by indentation, line by line, and only
// a version that would be chosen is decoded. That reads the block style in which Helm and every known server write an
// index, and JSON; for YAML of another form there is an error.
func Choose(r io.Reader, wants []Want) (map[Want]Choice, error) {
	x := &index{charts: map[string][]*chooser{}}
	for _, w := range wants {
		c, err := newChooser(w)
		if err != nil {
			return nil, err
		}
		x.charts[w.Chart] = append(x.charts[w.Chart], c)
	}
	br := bufio.NewReaderSize(r, 64<<10)
	read := x.readYAML
	if begins(br, '{') {
		read = x.readJSON
	}
	if err := read(br); err != nil {
		return nil, err
	}
	found := make(map[Want]Choice, len(wants))
	for _, choosers := range x.charts {
		for _, c := range choosers {
			found[c.want] = c.choice
		}
	}
	return found, nil
}

// begins looks at the first character that is no space.
func begins(br *bufio.Reader, with byte) bool {
	for n := 1; n <= br.Size(); n++ {
		b, err := br.Peek(n)
		if err != nil {
			return false
		}
		if last := b[n-1]; !bytes.ContainsRune([]byte(" \t\r\n"), rune(last)) {
			return last == with
		}
	}
	return false
}

// index is what is read, for the charts that are wanted.
type index struct{ charts map[string][]*chooser }

var errNoIndex = errors.New("it has no entries: it is not the index of a chart repository")

// lines of a text, of a bounded length.
type lines struct {
	r  *bufio.Reader
	at int    // number of the last line
	b  []byte // the last line, without its end
}

func (l *lines) next() error {
	l.b, l.at = l.b[:0], l.at+1
	for {
		part, err := l.r.ReadSlice('\n')
		l.b = append(l.b, part...)
		switch {
		case len(l.b) > maxItemBytes:
			return l.wrong("is longer than the limit of %d KiB", maxItemBytes>>10)
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(l.b) > 0:
		case err != nil:
			return err
		}
		l.b = bytes.TrimRight(l.b, "\r\n")
		return nil
	}
}

func (l *lines) wrong(format string, args ...any) error {
	return fmt.Errorf("line %d %s", l.at, fmt.Sprintf(format, args...))
}

// indent of the last line; -1: there is nothing on it but maybe a comment.
func (l *lines) indent() int {
	text := bytes.TrimLeft(l.b, " ")
	if len(text) == 0 || text[0] == '#' || len(bytes.TrimSpace(text)) == 0 {
		return -1
	}
	return len(l.b) - len(text)
}

// readYAML looks for the entries on the first level.
func (x *index) readYAML(br *bufio.Reader) error {
	l, seen := &lines{r: br}, false
	err := l.next()
	for err == nil {
		value, ok := bytes.CutPrefix(l.b, []byte("entries:"))
		if !ok {
			err = l.next()
			continue
		}
		if seen {
			return l.wrong("has entries a second time")
		}
		seen = true
		switch value = uncomment(value); {
		case len(value) == 0:
			err = x.readCharts(l)
		case string(value) == "{}", string(value) == "null", string(value) == "~":
			err = l.next()
		default:
			return l.wrong("has entries in a form of YAML that Fairlead does not read")
		}
	}
	switch {
	case !errors.Is(err, io.EOF):
		return err
	case !seen:
		return errNoIndex
	}
	return nil
}

// uncomment is what a line has after a key and before a comment.
func uncomment(value []byte) []byte {
	if at := bytes.Index(value, []byte(" #")); at >= 0 {
		value = value[:at]
	}
	return bytes.TrimSpace(value)
}

// readCharts reads what is below entries: names of charts, each with a list. The read ends, with a line read, where the
// first level goes on.
func (x *index) readCharts(l *lines) error {
	level, here := -1, &list{x: x}
	for {
		if err := l.next(); err != nil {
			here.end()
			return err
		}
		indent := l.indent()
		isItem := indent >= 0 && l.b[indent] == '-' && (len(l.b) == indent+1 || l.b[indent+1] == ' ')
		switch {
		case indent < 0:
			if err := here.add(l); err != nil {
				return err
			}
			continue
		case indent == 0 && (!isItem || level != 0):
			here.end()
			return nil
		case level < 0:
			level = indent
		}
		switch {
		case indent < level:
			return l.wrong("is not indented like those above it")
		case indent == level && !isItem:
			here.end()
			name, err := l.key()
			if err != nil {
				return err
			}
			here = &list{x: x, chart: name, level: -1, wanted: x.charts[name]}
			continue
		case here.chart == "":
			return l.wrong("belongs to no chart")
		}
		if err := here.line(l, indent, isItem); err != nil {
			return err
		}
	}
}

// key is the name of a chart whose list follows, or is empty.
func (l *lines) key() (string, error) {
	text := string(uncomment(l.b))
	for _, empty := range []string{" []", " null", " ~"} {
		text = strings.TrimSuffix(text, empty)
	}
	name, ok := strings.CutSuffix(text, ":")
	if len(name) > 1 && (name[0] == '"' || name[0] == '\'') && name[len(name)-1] == name[0] {
		name = name[1 : len(name)-1]
	}
	if !ok || name == "" || strings.ContainsAny(name, ": {}[]\"'\\&*!|>%@`") {
		return "", l.wrong("is in a form of YAML that Fairlead does not read: there should be the name of a chart and ':'")
	}
	return name, nil
}

// list is the versions of one chart. The versions of a chart that is not wanted are not kept.
type list struct {
	x      *index
	chart  string
	wanted []*chooser
	level  int // of the items; -1: there was none
	item   []byte
}

// line takes one line of the list.
func (s *list) line(l *lines, indent int, isItem bool) error {
	switch {
	case isItem && (s.level < 0 || indent == s.level):
		s.end()
		s.level = indent
	case s.level < 0 || indent <= s.level:
		return l.wrong("is in a form of YAML that Fairlead does not read: there should be a version of chart %q", s.chart)
	}
	return s.add(l)
}

// add keeps a line of an item.
func (s *list) add(l *lines) error {
	if len(s.wanted) == 0 || s.level < 0 {
		return nil
	}
	if len(s.item)+len(l.b) > maxItemBytes {
		return l.wrong("makes a version of chart %q longer than the limit of %d KiB", s.chart, maxItemBytes>>10)
	}
	s.item = append(append(s.item, l.b...), '\n')
	return nil
}

// end looks at an item that is complete.
func (s *list) end() {
	if len(s.item) == 0 {
		return
	}
	defer func() { s.item = s.item[:0] }()
	decode := func() (*entry, error) {
		var items []entry
		if err := yaml.Unmarshal(s.item, &items); err != nil || len(items) != 1 {
			return nil, errors.New("its entry can't be read")
		}
		return &items[0], nil
	}
	text, known := s.version()
	if !known {
		e, err := decode()
		if err != nil {
			for _, c := range s.wanted {
				c.bad(err)
			}
			return
		}
		text = e.Version
	}
	for _, c := range s.wanted {
		c.take(text, func() (Version, error) {
			e, err := decode()
			switch {
			case err != nil:
				return Version{}, err
			case e.Version != text:
				return Version{}, errors.New("its entry has two versions")
			}
			return e.version(s.chart)
		})
	}
}

// version of an item where it is written as everybody does, on a line of its own, so that an item that is not chosen is never
// decoded.
func (s *list) version() (text string, known bool) {
	level := -1 // of the item's keys
	for line := range bytes.Lines(s.item) {
		if level < 0 {
			after := bytes.TrimLeft(line[s.level+1:], " ")
			level = len(line) - len(after)
			line = after
		} else {
			if len(line) <= level || line[level] == ' ' || len(bytes.TrimLeft(line[:level], " ")) > 0 {
				continue
			}
			line = line[level:]
		}
		value, ok := bytes.CutPrefix(line, []byte("version: "))
		if !ok {
			continue
		}
		if known {
			return "", false
		}
		text, known = string(bytes.TrimSpace(value)), true
		if n := len(text); n > 1 && (text[0] == '"' || text[0] == '\'') && text[n-1] == text[0] {
			text = text[1 : n-1]
		}
		if !isPlain(text) {
			return "", false
		}
	}
	return text, known
}

// isPlain tells whether a text means itself in YAML, as a string: a number or a truth is left to the decoder.
func isPlain(text string) bool {
	return strings.Count(text, ".") >= 2 && strings.Trim(text, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.+-") == ""
}

// gate bounds what a decoder reads on before it has to be opened again.
type gate struct {
	r           io.Reader
	read, until int64
}

func (g *gate) Read(p []byte) (int, error) {
	if g.read >= g.until {
		return 0, fmt.Errorf("a version is longer than the limit of %d KiB", maxItemBytes>>10)
	}
	n, err := g.r.Read(p[:min(int64(len(p)), g.until-g.read)])
	g.read += int64(n)
	return n, err
}

// jsonIndex is an index in JSON, token by token.
type jsonIndex struct {
	*json.Decoder
	gate *gate
}

func (j *jsonIndex) open() { j.gate.until = j.InputOffset() + maxItemBytes }

func (j *jsonIndex) token() (json.Token, error) {
	j.open()
	t, err := j.Token()
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return t, err
}

// skip reads over a value. The decoder remembers each level that is open.
func (j *jsonIndex) skip() error {
	for depth := 0; ; {
		t, err := j.token()
		if err != nil {
			return err
		}
		switch t {
		case json.Delim('{'), json.Delim('['):
			if depth++; depth > maxLevels {
				return fmt.Errorf("it has more than the limit of %d levels", maxLevels)
			}
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
	}
}

// object visits the keys of an object; visit reads the value.
func (j *jsonIndex) object(visit func(key string) error) error {
	t, err := j.token()
	if err != nil {
		return err
	}
	if t == nil {
		return nil
	}
	if t != json.Delim('{') {
		return errors.New("its entries are not an object")
	}
	for {
		t, err := j.token()
		if err != nil {
			return err
		}
		key, more := t.(string)
		if !more {
			return nil
		}
		if err := visit(key); err != nil {
			return err
		}
	}
}

func (x *index) readJSON(br *bufio.Reader) error {
	g := &gate{r: br, until: maxItemBytes}
	j, seen := &jsonIndex{json.NewDecoder(g), g}, false
	err := j.object(func(key string) error {
		if key != "entries" {
			return j.skip()
		}
		if seen {
			return errors.New("it has entries twice")
		}
		seen = true
		return j.object(func(chart string) error {
			if len(x.charts[chart]) == 0 {
				return j.skip()
			}
			return x.readJSONList(j, chart)
		})
	})
	if err == nil && !seen {
		return errNoIndex
	}
	return err
}

func (x *index) readJSONList(j *jsonIndex, chart string) error {
	t, err := j.token()
	if err != nil || t == nil {
		return err
	}
	if t != json.Delim('[') {
		return fmt.Errorf("the versions of chart %q are not a list", chart)
	}
	for {
		j.open()
		if !j.More() {
			_, err := j.token()
			return err
		}
		var e entry
		err := j.Decode(&e)
		if _, wrong := errors.AsType[*json.UnmarshalTypeError](err); wrong {
			for _, c := range x.charts[chart] {
				c.bad(errors.New("an entry can't be read"))
			}
			continue
		}
		if err != nil {
			return err
		}
		for _, c := range x.charts[chart] {
			c.take(e.Version, func() (Version, error) { return e.version(chart) })
		}
	}
}
