package build

import "context"

// Lookup says what a place became, if that is known and its commit is here. Lookup builds nothing.
func (b *Builder) Lookup(ctx context.Context, p Place) (Record, bool) {
	f, err := b.findPlace(ctx, p)
	if err != nil {
		return Record{}, false
	}
	r, ok := b.memo.getRecord(f.contentAt(p).sourceID())
	return r.Record, ok
}
