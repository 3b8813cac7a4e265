package git

// Kind of an object, by the number that packs have for it.
type Kind int8

// Kinds of objects.
const (
	UnknownKind Kind = iota // no object has it
	Commit
	Tree
	Blob
	Tag
)

// String is the word that Git has for a kind. The word is part of what an object's hash is of.
func (k Kind) String() string {
	switch k {
	case Commit:
		return "commit"
	case Tree:
		return "tree"
	case Blob:
		return "blob"
	case Tag:
		return "tag"
	default:
		return "unknown"
	}
}
