package kubename

import (
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][3]bool{ // label, object, account
		"":                                 {},
		"a":                                {true, true, false},
		"7":                                {true, true, false},
		"web-1":                            {true, true, false},
		"-web":                             {},
		"web-":                             {},
		"web.local":                        {false, true, false},
		".web":                             {},
		"web.":                             {},
		"Web":                              {},
		"wéb":                              {},
		"we b":                             {},
		"web\n":                            {},
		"web_1":                            {},
		strings.Repeat("a", 63):            {true, true, false},
		strings.Repeat("a", 64):            {false, true, false},
		strings.Repeat("a", 253):           {false, true, false},
		strings.Repeat("a", 254):           {},
		"shop/deployer":                    {false, false, true},
		"shop/deploy.er":                   {false, false, true},
		"shop.x/deployer":                  {},
		"shop/":                            {},
		"/deployer":                        {},
		"shop/a/b":                         {},
		"shop/" + strings.Repeat("a", 254): {},
	} {
		if got := [3]bool{IsLabel(text), IsObject(text), IsAccount(text)}; got != want {
			t.Errorf("%q: label, object, account %v, want %v", text, got, want)
		}
	}
}
