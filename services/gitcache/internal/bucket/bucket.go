// Package bucket reads what hosts of buckets (S3 and what speaks like it) answer, and signs requests to them. The
// package talks to nobody.
//
// Invariants: nothing that a host says is trusted; memory is bounded by the limits below; the same objects are the same
// content on every replica.
//
// Errors are in words for the owner of the source.
package bucket

import (
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"fairlead.dev/services/gitcache/internal/archive"
)

// Limits of what a bucket may hold below a prefix, and of how long its list may be.
const (
	MaxObjects    = 20_000
	MaxFileBytes  = 32 << 20
	MaxTotalBytes = 256 << 20
	// PageObjects are asked for at once: the most that S3 gives.
	PageObjects = 1000
	// MaxPages of a list: a host may give fewer objects at once, and a list of versions has old ones in it.
	MaxPages     = 1000
	MaxPageBytes = 8 << 20
	// maxProblemBytes of the document that comes with an error.
	maxProblemBytes = 64 << 10
	// maxETagBytes and maxVersionBytes bound what is kept in memory of each object besides its key. ETags of S3 have up
	// to 38 bytes, and the ids of versions 1,024 at most.
	maxETagBytes    = 256
	maxVersionBytes = 1024
	// maxNextBytes of what asks for the next page.
	maxNextBytes = 4 << 10
	// author of the commits: a bucket tells none.
	author = "bucket"
)

// Object is a file, as a list has it.
type Object struct {
	Key      string // whole
	Path     string // what of Key is below the prefix
	ETag     string // without quotes; it may be empty
	Version  string // of a versioned bucket
	Size     int64
	Modified time.Time // zero: it is not said
}

// Page is a part of a list.
type Page struct {
	Objects []Object
	// Next are the parameters that ask for what follows; nil: nothing does.
	Next url.Values
}

// page is the document of both kinds of lists.
type page struct {
	XMLName               xml.Name
	EncodingType          string
	IsTruncated           string
	NextContinuationToken string
	NextKeyMarker         string
	NextVersionIDMarker   string `xml:"NextVersionIdMarker"`
	Contents              entries
	Version               entries // of these those that are the latest are the content
}

// entries are bounded while they are read.
type entries []entry

// UnmarshalXML reads one more.
func (e *entries) UnmarshalXML(d *xml.Decoder, start xml.StartElement) error {
	if len(*e) >= PageObjects {
		return fmt.Errorf("it has more than the %d objects that were asked for", PageObjects)
	}
	var one entry
	if err := d.DecodeElement(&one, &start); err != nil {
		return err
	}
	*e = append(*e, one)
	return nil
}

type entry struct {
	Key          string
	ETag         string
	Size         int64
	VersionID    string `xml:"VersionId"`
	IsLatest     string
	LastModified string
}

// Query asks for the first page of the list of what is below a prefix.
func Query(prefix string, versioned bool) url.Values {
	query := url.Values{"prefix": {prefix}, "max-keys": {fmt.Sprint(PageObjects)}, "encoding-type": {"url"}}
	if versioned {
		query.Set("versions", "")
	} else {
		query.Set("list-type", "2")
	}
	return query
}

// Decode reads a page of a list. Markers of folders (keys that end with a slash, without content) are left out.
func Decode(text []byte, prefix string, versioned bool) (Page, error) {
	var is page
	if err := xml.Unmarshal(text, &is); err != nil {
		return Page{}, fmt.Errorf("the list can't be read: %s", archive.Shorten(err.Error()))
	}
	root, listed := "ListBucketResult", is.Contents
	if versioned {
		root, listed = "ListVersionsResult", slices.DeleteFunc(is.Version, func(e entry) bool { return e.IsLatest != "true" })
	}
	if is.XMLName.Local != root {
		return Page{}, fmt.Errorf("the list is a document %q, and should be %s", archive.Shorten(is.XMLName.Local), root)
	}
	decode := func(text string) (string, error) { return text, nil }
	if is.EncodingType == "url" {
		decode = url.QueryUnescape
	}
	var out Page
	for _, e := range listed {
		o, isFile, err := e.object(prefix, decode)
		if err != nil {
			return Page{}, err
		}
		if !isFile {
			continue
		}
		switch {
		case !versioned:
			o.Version = ""
		case o.Version == "":
			return Page{}, fmt.Errorf("the list names no version of the key %q", archive.Shorten(o.Key))
		}
		out.Objects = append(out.Objects, o)
	}
	if is.IsTruncated != "true" {
		return out, nil
	}
	var err error
	out.Next, err = is.next(versioned, decode)
	return out, err
}

// next asks for the page that follows.
func (p page) next(versioned bool, decode func(string) (string, error)) (url.Values, error) {
	unbounded := len(p.NextContinuationToken) > maxNextBytes || len(p.NextKeyMarker) > maxNextBytes || len(p.NextVersionIDMarker) > maxNextBytes
	if !versioned && p.NextContinuationToken != "" && !unbounded {
		return url.Values{"continuation-token": {p.NextContinuationToken}}, nil
	}
	marker, err := decode(p.NextKeyMarker)
	if err != nil || !versioned || marker == "" || unbounded {
		return nil, errors.New("the list goes on, and does not say how")
	}
	next := url.Values{"key-marker": {marker}}
	if p.NextVersionIDMarker != "" {
		next.Set("version-id-marker", p.NextVersionIDMarker)
	}
	return next, nil
}

// object is an entry as a file; false: it is the marker of a folder.
func (e entry) object(prefix string, decode func(string) (string, error)) (o Object, isFile bool, err error) {
	if o.Key, err = decode(e.Key); err != nil {
		return o, false, fmt.Errorf("the key %q in the list can't be decoded", archive.Shorten(e.Key))
	}
	var below bool
	if o.Path, below = strings.CutPrefix(o.Key, prefix); !below {
		return o, false, fmt.Errorf("the list has the key %q, which is not below %q", archive.Shorten(o.Key), archive.Shorten(prefix))
	}
	if e.Size == 0 && (o.Path == "" || strings.HasSuffix(o.Path, "/")) {
		return o, false, nil
	}
	o.ETag, o.Version, o.Size = ETag(e.ETag), e.VersionID, e.Size
	if at, err := time.Parse(time.RFC3339, e.LastModified); err == nil && at.Year() > 1 && at.Year() < 10_000 {
		o.Modified = at.UTC()
	}
	return o, true, o.check()
}

// ETag is an ETag as lists and headers have it, without what stands around it.
func ETag(text string) string { return strings.Trim(strings.TrimPrefix(text, "W/"), `"`) }

// check takes keys that are paths of files, written in the one way that there is.
func (o Object) check() error {
	switch place, err := archive.Place(o.Path); {
	case err != nil:
		return fmt.Errorf("the key %q %w. Remove the object, or move it out of the prefix", archive.Shorten(o.Key), err)
	case place != o.Path:
		return fmt.Errorf("the key %q is no path of a file: it has empty parts, '.' or a backslash. Remove the object, or move it out of the prefix", archive.Shorten(o.Key))
	case len(o.ETag) > maxETagBytes:
		return fmt.Errorf("the list gives the key %q an ETag of %d bytes, and the limit is %d: the endpoint is no S3",
			archive.Shorten(o.Key), len(o.ETag), maxETagBytes)
	case len(o.Version) > maxVersionBytes:
		return fmt.Errorf("the list gives the key %q a version of %d bytes, and the limit is %d: the endpoint is no S3",
			archive.Shorten(o.Key), len(o.Version), maxVersionBytes)
	case o.Size < 0:
		return fmt.Errorf("the list gives the key %q a size below 0", archive.Shorten(o.Key))
	case o.Size > MaxFileBytes:
		return fmt.Errorf("the object %q has %d MiB, and the limit is %d MiB for a file. Remove it, or move it out of the prefix", archive.Shorten(o.Key), o.Size>>20, MaxFileBytes>>20)
	}
	return nil
}

// Sort puts a whole list in order, and says what speaks against it: too much, or two objects that would be one file. An
// object that a host repeats at the begin of a page is one.
func Sort(objects []Object) ([]Object, error) {
	slices.SortFunc(objects, func(a, b Object) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.ETag+a.Version, b.ETag+b.Version))
	})
	objects = slices.Compact(objects)
	files, total := make(map[string]bool, len(objects)), int64(0)
	for _, o := range objects {
		if files[o.Path] {
			return nil, fmt.Errorf("the list has the key %q twice", archive.Shorten(o.Key))
		}
		files[o.Path] = true
		if total += o.Size; total > MaxTotalBytes {
			return nil, fmt.Errorf("the objects are together larger than the limit of %d MiB. Choose a smaller part with prefix", MaxTotalBytes>>20)
		}
	}
	for _, o := range objects {
		for i, c := range o.Path {
			if c == '/' && files[o.Path[:i]] {
				return nil, fmt.Errorf("%q can't be a file and a folder: there is an object with this key, and %q. Remove one of them", archive.Shorten(o.Path[:i]), archive.Shorten(o.Key))
			}
		}
	}
	return objects, nil
}

// Build begins a commit of objects. dir is for a temporary file.
func Build(dir string) (*archive.Builder, error) {
	return archive.New(dir, archive.Limits{FileBytes: MaxFileBytes, Bytes: MaxTotalBytes, Files: 2 * MaxObjects})
}

// Commit ends the builder. The same files of the same bucket are the same commit.
func Commit(b *archive.Builder, subject string) (*archive.Objects, error) {
	return b.Commit(author, subject)
}

// Problem is the document that comes with an error.
type Problem struct {
	Code, Message, Region string
}

// ReadProblem reads the document of an answer; the zero value: it is none.
func ReadProblem(body io.Reader) Problem {
	text, err := io.ReadAll(io.LimitReader(body, maxProblemBytes))
	if err != nil {
		return Problem{}
	}
	return DecodeProblem(text)
}

// DecodeProblem reads the document; the zero value: it is none.
func DecodeProblem(text []byte) Problem {
	var is struct {
		XMLName xml.Name `xml:"Error"`
		Problem
	}
	if xml.Unmarshal(text, &is) != nil {
		return Problem{}
	}
	return is.Problem
}
