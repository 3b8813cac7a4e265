package status

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"fairlead.dev/platform/refusal"
)

// Order sorts sources. Equal ones are in the order of their names, so that pages can go on behind one.
type Order struct {
	by         string
	descending bool
}

// keys are what can be sorted by: a text or a number of a source.
func keys() map[string]func(*Source) key {
	moment := func(t time.Time) key { // no time comes first
		if t.IsZero() {
			return key{}
		}
		return key{Number: t.UnixNano()}
	}
	return map[string]func(*Source) key{
		"name":                        func(*Source) key { return key{} },
		"owner":                       func(s *Source) key { return key{Text: s.Owner} },
		"last_poll_time":              func(s *Source) key { return moment(s.LastPoll) },
		"next_poll_time":              func(s *Source) key { return moment(s.NextPoll) },
		"stale_since":                 func(s *Source) key { return moment(s.StaleSince) },
		"mirror_bytes":                func(s *Source) key { return key{Number: s.MirrorBytes} },
		"upstream_requests_last_hour": func(s *Source) key { return key{Number: int64(s.UpstreamRequests)} },
	}
}

type key struct {
	Text   string `json:"t,omitempty"`
	Number int64  `json:"n,omitempty"`
	Name   string `json:"m"`
}

// ParseOrder reads a field, followed by " desc" for the other way round.
func ParseOrder(text string) (Order, error) {
	words := strings.Fields(text)
	o := Order{by: "name"}
	if len(words) > 0 {
		o.by = words[0]
	}
	o.descending = len(words) == 2 && words[1] == "desc"
	if _, ok := keys()[o.by]; !ok || len(words) > 2 || len(words) == 2 && words[1] != "desc" && words[1] != "asc" {
		return Order{}, refusal.New(refusal.Invalid, "order_by: %q is no order: write name, owner, last_poll_time, next_poll_time, stale_since, mirror_bytes or upstream_requests_last_hour, and desc behind it for the other way round", text)
	}
	return o, nil
}

func (o Order) key(s *Source) key {
	k := keys()[o.by](s)
	k.Name = s.Name
	return k
}

func (o Order) compare(a, b key) int {
	c := cmp.Or(cmp.Compare(a.Text, b.Text), cmp.Compare(a.Number, b.Number), cmp.Compare(a.Name, b.Name))
	if o.descending {
		return -c
	}
	return c
}

func (o Order) sort(sources []*Source) {
	slices.SortFunc(sources, func(a, b *Source) int { return o.compare(o.key(a), o.key(b)) })
}

// token is where the page after s begins. The token is good for this filter and order only.
func (q Query) token(o Order, s *Source) string {
	b, err := json.Marshal(token{Bound: q.bound(), Last: o.key(s)})
	if err != nil {
		panic(err) // texts and numbers
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

type token struct {
	Bound []byte `json:"b"`
	Last  key    `json:"k"`
}

func (q Query) bound() []byte {
	sum := sha256.Sum256([]byte(q.Filter + "\x00" + q.OrderBy))
	return sum[:8]
}

// last is the key that the page before ended with; nil: this is the first page.
func (q Query) last() (*key, error) {
	if q.Token == "" {
		return nil, nil //nolint:nilnil // none
	}
	var t token
	b, err := base64.RawURLEncoding.DecodeString(q.Token)
	if err == nil {
		err = json.Unmarshal(b, &t)
	}
	if err != nil || !slices.Equal(t.Bound, q.bound()) {
		return nil, refusal.New(refusal.Invalid, "page_token: is not one that an answer with the same filter and order_by had")
	}
	return &t.Last, nil
}

// page cuts the page of a query out of all sources that its filter lets through.
func (q Query) page(all []*Source) (List, error) {
	f, err := ParseFilter(q.Filter)
	if err != nil {
		return List{}, err
	}
	o, err := ParseOrder(q.OrderBy)
	if err != nil {
		return List{}, err
	}
	last, err := q.last()
	if err != nil {
		return List{}, err
	}
	var found []*Source
	for _, s := range all {
		if f.Match(s) {
			found = append(found, s)
		}
	}
	o.sort(found)
	out := List{Total: len(found)}
	if last != nil {
		i, _ := slices.BinarySearchFunc(found, *last, func(s *Source, last key) int {
			if o.compare(o.key(s), last) <= 0 {
				return -1
			}
			return 1
		})
		found = found[i:]
	}
	if len(found) > q.Size {
		found = found[:q.Size]
		out.Next = q.token(o, found[q.Size-1])
	}
	out.Sources = found
	return out, nil
}
