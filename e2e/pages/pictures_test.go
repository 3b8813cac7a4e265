package pages

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The pictures of the documentation together, which everybody who clones has.
const mostPictures = 600 << 10

// A picture that nothing takes again shows pages of long ago, and one that no page shows is for nobody.
func TestPicturesAreTakenAndShown(t *testing.T) {
	t.Parallel()
	list := regexp.MustCompile(`const documented = \[([^\]]*)\]`).FindStringSubmatch(read(t,
		"e2e/browser/screenshots.mjs"))
	if list == nil {
		t.Fatal("screenshots.mjs has no list of the pictures of the documentation")
	}
	var taken []string
	for _, found := range regexp.MustCompile(`"([^"]+)"`).FindAllStringSubmatch(list[1], -1) {
		taken = append(taken, "docs/pictures/"+found[1]+".webp")
	}
	slices.Sort(taken)
	there := files(t, "docs/pictures/*")
	if slices.Sort(there); len(there) == 0 || !slices.Equal(there, taken) {
		t.Errorf("make screenshots takes\n%s\nand there are\n%s", strings.Join(taken, "\n"), strings.Join(there, "\n"))
	}
	shown := map[string]bool{}
	for _, page := range pages(t) {
		for _, found := range regexp.MustCompile(`!\[([^\]]*)\]\(([^)\s]+)\)`).FindAllStringSubmatch(page.text, -1) {
			shown[filepath.ToSlash(filepath.Join(filepath.Dir(page.name), found[2]))] = true
			if len(found[1]) < 20 {
				t.Errorf("%s: %s says to nobody who can't see it what is on it: %q", page.name, found[2], found[1])
			}
		}
	}
	var size int64
	for _, name := range there {
		if !shown[name] {
			t.Errorf("no page shows %s", name)
		}
		info, err := os.Stat(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	if size > mostPictures {
		t.Errorf("the pictures have %d bytes, more than %d", size, mostPictures)
	}
	beginning, _, _ := strings.Cut(read(t, "README.md"), "\n## ")
	if !strings.Contains(beginning, "](docs/pictures/") {
		t.Error("the README does not begin with a picture")
	}
}
