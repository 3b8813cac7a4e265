package build

// Lookup says what a place became, if that is known and its commit is here. It builds nothing.
func (b *Builder) Lookup(p Place) (Record, bool) {
	f, err := b.find(p)
	if err != nil {
		return Record{}, false
	}
	r, ok := b.memo.get(f.content(p).id())
	return r.Record, ok
}
