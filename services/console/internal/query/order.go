package query

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// maxKeys of an order.
const maxKeys = 5

// Order is in which order rows come.
type Order []Key

// Key is a field that rows are ordered by.
type Key struct {
	Field string
	Desc  bool
	t     Type
}

// ParseOrder reads fields with commas between them, each with desc behind it or not.
func ParseOrder(order string, fields Fields) (Order, error) {
	if strings.TrimSpace(order) == "" {
		return nil, nil
	}
	var out Order
	for part := range strings.SplitSeq(order, ",") {
		words := strings.Fields(part)
		switch {
		case len(words) == 0:
			return nil, errors.New("there is a comma without a field")
		case len(words) > 2 || len(words) == 2 && words[1] != "desc" && words[1] != "asc":
			return nil, fmt.Errorf("%q: behind a field there may only be asc or desc", strings.TrimSpace(part))
		}
		t, ok := fields[words[0]]
		if strings.HasPrefix(words[0], "labels.") && fields["labels"].kind == labels {
			t, ok = Text, true
		}
		if !ok || t.kind == labels {
			return nil, errors.New(unknown(words[0], fields))
		}
		out = append(out, Key{Field: words[0], Desc: len(words) == 2 && words[1] == "desc", t: t})
	}
	if len(out) > maxKeys {
		return nil, fmt.Errorf("at most %d fields", maxKeys)
	}
	return out, nil
}

// Values adds those of a row that its place in the order depends on to a list.
func (o Order) Values(list []Value, row Row) []Value {
	for _, k := range o {
		v, ok := row.Field(k.Field)
		if !ok {
			v = Value{Number: -1} // before all others
		}
		if k.t.kind == level {
			v = Value{Number: int64(slices.Index(k.t.levels, v.Text))}
		}
		list = append(list, v)
	}
	return list
}

// compareValues says which of two rows comes first, by their values alone.
func (o Order) compareValues(a, b []Value) int {
	for i, k := range o {
		c := cmp.Or(cmp.Compare(a[i].Number, b[i].Number), cmp.Compare(a[i].Text, b[i].Text))
		if k.Desc {
			c = -c
		}
		if c != 0 {
			return c
		}
	}
	return 0
}
