// Package artifact is the content of the delivery network: immutable folders of files, packed as a
// canonical tar and named by the sha256 of its uncompressed bytes.
//
// The canonical form, so that equal content has equal bytes wherever and by whatever it is built:
// entries in ascending byte order of their paths; files and symlinks only, folders are implied by
// paths; modes 0644, 0755 for executables and 0777 for links; owner, times and devices zero; USTAR,
// with PAX records for path, linkpath or size where USTAR can't hold them; two zero blocks at the end. Where the folder
// that it is made for refers to files beside it, a global header comes first whose only record, FAIRLEAD.base,
// names that folder, and paths are those of the repository. Releases that know nothing of it refuse such an artifact.
// Reading accepts nothing that writing can't make, so nothing can surprise whoever unpacks it.
//
// A symlink's target is any text, as in Git. Nothing of the artifact is unpacked to be used: package links
// says where a link leads, and that it leads out. Files and links that Extract writes to a disk stay within the root.
//
// Bytes are never trusted by their name: Put and Fetch hash what comes in, Open hashes what a
// restart or another hand left on the disk, and a response that went bad is cut off before its end.
package artifact
