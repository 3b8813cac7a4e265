package store

import (
	"fairlead.dev/services/console/internal/store/audittrail"
	"fairlead.dev/services/console/internal/store/database"
	"fairlead.dev/services/console/internal/store/guard"
	"fairlead.dev/services/console/internal/store/login"
	"fairlead.dev/services/console/internal/store/places"
	"fairlead.dev/services/console/internal/store/recordings"
	"fairlead.dev/services/console/internal/store/shown"
)

// The rooms, each by another name, so that one struct embeds them all.
type (
	guardView  = guard.View
	guardTx    = guard.Tx
	loginView  = login.View
	loginTx    = login.Tx
	placesView = places.View
	placesTx   = places.Tx

	recordingsView  = recordings.View
	recordingsStore = recordings.Store
	shownView       = shown.View
	shownStore      = shown.Store
	trailView       = audittrail.View
	trailStore      = audittrail.Store
)

// View reads at one moment.
type View struct {
	guardView
	loginView
	placesView
	recordingsView
	shownView
	trailView
	db database.View
}

func viewOver(v database.View) View {
	return View{
		guardView: guardView{View: v}, loginView: loginView{View: v}, placesView: placesView{View: v},
		recordingsView: recordingsView{View: v}, shownView: shownView{View: v}, trailView: trailView{View: v}, db: v,
	}
}

func (s *Store) txOver(tx database.Tx) Tx {
	t := Tx{View: viewOver(tx.View()), store: s}
	t.setRooms(tx)
	return t
}

// setRooms has all rooms write in a transaction.
func (t *Tx) setRooms(tx database.Tx) {
	t.tx, t.guardTx, t.loginTx, t.placesTx = tx, guardTx{Tx: tx}, loginTx{Tx: tx}, placesTx{Tx: tx}
}
