package identity

import "fmt"

// Lasting is what the console makes that outlives the token that it was made with.
type Lasting string

// The kinds of it.
const (
	JoinToken Lasting = "join tokens"
	LoginLink Lasting = "login links"
	APIToken  Lasting = "API tokens"
	UserToken Lasting = "tokens for others"
	Right     Lasting = "grants, roles and service accounts"
)

// MayMake says why a token makes nothing of a kind that outlives it, or nil. MayMake is the one place that decides so:
// a token that was lent for minutes makes no credential and no right, and one that can't be renewed (a session in a
// browser, an API token) nothing that speaks for a person. The rights of its owner are judged besides.
func (id Identity) MayMake(what Lasting) error {
	switch {
	case id.Lent:
		return fmt.Errorf("a token that was handed on makes no %s: log in with `fairlead login`", what)
	case id.Final && (what == LoginLink || what == APIToken || what == UserToken):
		return fmt.Errorf("a session in a browser and an API token make no %s: log in with `fairlead login`", what)
	}
	return nil
}
