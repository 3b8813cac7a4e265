package query_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"fairlead.dev/services/console/internal/query"
)

type namedRow struct {
	row
	name string
}

func (r namedRow) Name() string { return r.name }

// Pages one after another are the rows in their order, each once, whatever the size of a page.
func TestPagesAreTheWholeInItsOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		order, err := query.ParseOrder(rapid.SampledFrom([]string{"", "size", "size desc", "severity desc, size"}).Draw(t, "order"), fields)
		if err != nil {
			t.Fatal(err)
		}
		rows := make([]namedRow, rapid.IntRange(0, 60).Draw(t, "rows"))
		for i := range rows {
			rows[i] = namedRow{row{"size": {Number: rapid.Int64Range(0, 3).Draw(t, "size")}}, fmt.Sprintf("r%02d", i)}
			if rapid.Bool().Draw(t, "severe") {
				rows[i].row["severity"] = query.Value{Text: rapid.SampledFrom([]string{"INFO", "ERROR"}).Draw(t, "severity")}
			}
		}
		rows = rapid.Permutation(rows).Draw(t, "shuffled")
		size := rapid.IntRange(1, 20).Draw(t, "page size")
		question := query.Question("what is asked")
		var got []string
		for token := ""; ; {
			after, err := query.PlaceOf(token, question, len(order))
			if err != nil {
				t.Fatal(err)
			}
			page := query.PageOf(rows, order, after, size)
			for _, r := range page.Rows {
				got = append(got, r.name)
			}
			if token = page.Last.Token(question); token == "" {
				break
			}
			if len(page.Rows) != size {
				t.Fatalf("%d rows on a page of %d that is not the last one", len(page.Rows), size)
			}
		}
		place := func(r namedRow) query.Place { return query.Place{Values: order.Values(nil, r), Name: r.name} }
		slices.SortFunc(rows, func(a, b namedRow) int { return order.Compare(place(a), place(b)) })
		var want []string
		for _, r := range rows {
			want = append(want, r.name)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}

func TestTokensOfOtherQuestionsAreRefused(t *testing.T) {
	t.Parallel()
	place := &query.Place{Values: []query.Value{{Number: 1}}, Name: "x"}
	token := place.Token(7)
	for _, c := range []struct {
		token  string
		of     uint64
		values int
		err    error
	}{
		{token, 7, 1, nil}, {token, 8, 1, query.ErrOtherToken}, {token, 7, 2, query.ErrOtherToken}, {"%", 7, 1, query.ErrNoToken}, {"e30x", 7, 1, query.ErrNoToken},
	} {
		if _, err := query.PlaceOf(c.token, c.of, c.values); !errors.Is(err, c.err) {
			t.Errorf("%+v: got %v", c, err)
		}
	}
}

// fleet is rows in the order of their names, as a list of clusters has them before a figure orders them.
func fleet(n int) []*namedRow {
	random := rand.New(rand.NewPCG(1, 2))
	rows := make([]*namedRow, n)
	for i := range rows {
		rows[i] = &namedRow{row{"size": {Number: random.Int64N(1000)}}, fmt.Sprintf("edge-%05d", i)}
	}
	return rows
}

func worstFirst(t testing.TB) query.Order {
	t.Helper()
	order, err := query.ParseOrder("size desc", fields)
	if err != nil {
		t.Fatal(err)
	}
	return order
}

// A page keeps the places of its own rows, and of few others.
func TestPageOfALongListKeepsFewPlaces(t *testing.T) { //nolint:paralleltest // it counts what the process allocates
	rows, order := fleet(10_000), worstFirst(t)
	kept := testing.AllocsPerRun(5, func() {
		if page := query.PageOf(rows, order, nil, 100); len(page.Rows) != 100 || page.Last == nil {
			t.Errorf("%d rows", len(page.Rows))
		}
	})
	if kept > 2000 {
		t.Errorf("a page of 100 of %d rows takes %.0f allocations", len(rows), kept)
	}
}

// A page of 100 of 10,000 rows, beside an order of all of them that is cut.
func BenchmarkPageOf10000(b *testing.B) {
	rows, order := fleet(10_000), worstFirst(b)
	b.Run("page", func(b *testing.B) {
		for b.Loop() {
			query.PageOf(rows, order, nil, 100)
		}
	})
	b.Run("order of all", func(b *testing.B) {
		for b.Loop() {
			query.PageOf(rows, order, nil, len(rows))
		}
	})
}
