package oci

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"fairlead.dev/platform/catalog"
)

const (
	// PageTags are asked for at a time. Registries may send fewer.
	PageTags = 1000
	// MaxPageBytes of one page of tags.
	MaxPageBytes = 8 << 20
	// MaxPages and MaxTags of one repository: a registry whose list has no end is an error, and a part of a list is
	// none.
	MaxPages = 500
	MaxTags  = 200_000
)

// ErrOtherHost: a list of tags goes on elsewhere.
var ErrOtherHost = errors.New("the list of tags goes on at another host, which Fairlead does not follow")

// DecodeTags reads a page of tags. Tags that can't be names are left out: they may have any length.
func DecodeTags(body []byte) ([]string, error) {
	if err := checkValues(body, MaxTags); err != nil {
		return nil, fmt.Errorf("the list of tags %w", err)
	}
	var page struct {
		Tags []string `json:"tags"`
	}
	if err := json.Unmarshal(body, &page); err != nil {
		return nil, errors.New("the list of tags is not JSON that can be read")
	}
	return slices.DeleteFunc(page.Tags, func(tag string) bool { return !catalog.IsRegistryTag(tag) }), nil
}

// NextPage is where the list of tags goes on, by the Link headers of a page; nil: it ends there.
func NextPage(page *url.URL, links []string) (*url.URL, error) {
	for _, header := range links {
		for link := range strings.SplitSeq(header, ",") {
			target, params, ok := strings.Cut(strings.TrimSpace(link), ">")
			target, begins := strings.CutPrefix(target, "<")
			if !ok || !begins || !isNext(params) {
				continue
			}
			to, err := page.Parse(target)
			if err != nil {
				return nil, errors.New("the next page of tags has an address that can't be read")
			}
			if to.Scheme != page.Scheme || !strings.EqualFold(to.Host, page.Host) || to.User != nil {
				return nil, ErrOtherHost
			}
			return to, nil
		}
	}
	return nil, nil //nolint:nilnil // documented
}

func isNext(params string) bool {
	for param := range strings.SplitSeq(params, ";") {
		key, value, _ := strings.Cut(strings.TrimSpace(param), "=")
		if strings.EqualFold(key, "rel") && strings.EqualFold(strings.Trim(value, `"`), "next") {
			return true
		}
	}
	return false
}
