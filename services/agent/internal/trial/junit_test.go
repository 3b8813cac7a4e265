package trial

import (
	"fmt"
	"strings"
	"testing"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
)

func plainMask(text string) string { return text }

func TestReportsInALog(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, text              string
		passed, failed, skipped int32
		first                   string // class name: message
	}{
		{"none", "no report here, <testsuit> neither", 0, 0, 0, ""},
		{"one", "a\n<testsuite name='s'><testcase name='a'/></testsuite>\nb", 1, 0, 0, "s a: "},
		{
			"class", "<testsuites><testsuite><testcase classname='k' name='a'/></testsuite></testsuites>", 1, 0, 0,
			"k a: ",
		},
		{
			"two reports",
			"<testsuite><testcase name='a'/></testsuite> and <testsuite><testcase name='b'><error>x</error></testcase></testsuite>",
			1, 1, 0, " b: x",
		},
		{
			"nested",
			"<testsuites><testsuite name='o'><testsuite name='i'><testcase name='a'><failure message='m'>t</failure></testcase></testsuite></testsuite></testsuites>",
			0, 1, 0, "i a: m\nt",
		},
		{
			"cdata",
			"<testsuite><testcase name='a'><failure><![CDATA[<b> & </testsuite>]]></failure><system-out>noise</system-out></testcase></testsuite>",
			0, 1, 0, " a: <b> & </testsuite>",
		},
		{
			"skipped", "<testsuite><testcase name='a'><skipped message='why'/></testcase></testsuite>", 0, 0, 1,
			" a: why",
		},
		{
			"named in a line", "writing <testsuite to a file\n<testsuite><testcase name='a'/></testsuite>", 1, 0, 0,
			" a: ",
		},
		{"cut off", "<testsuite><testcase name='a'/>", 0, 0, 0, ""},
		{"ended by another", "<testsuite><testcase name='a'></testsuite>", 0, 0, 0, ""},
		{"lines within", "<testsuite>\nsome log\n<testcase name='a'/>\n</testsuite>", 1, 0, 0, " a: "},
		{"outside of a case", "<testsuite><failure message='m'/><skipped/></testsuite>", 0, 0, 0, ""},
		// there are no entities but XML's own
		{
			"bomb",
			"<!DOCTYPE b [<!ENTITY a 'aaaa'><!ENTITY b '&a;&a;'>]><testsuite><testcase name='&b;'/></testsuite>", 0, 0,
			0, "",
		},
		{
			"document type within", "<testsuite><!DOCTYPE b [<!ENTITY a 'aaaa'>]><testcase name='&a;'/></testsuite>",
			0, 0, 0, "",
		},
		{"deep", strings.Repeat("<testsuite>", 100_000), 0, 0, 0, ""},
	} {
		got := parseReports([]byte(test.text), plainMask)
		first := ""
		if len(got.cases) > 0 {
			first = fmt.Sprintf("%s %s: %s", got.cases[0].GetClass(), got.cases[0].GetName(), got.cases[0].GetMessage())
		}
		if got.passed != test.passed || got.failed != test.failed || got.skipped != test.skipped ||
			first != test.first {
			t.Errorf("%s: %d passed, %d failed, %d skipped, first %q; want %d, %d, %d, %q", test.name, got.passed,
				got.failed, got.skipped, first, test.passed, test.failed, test.skipped, test.first)
		}
	}
}

func TestCasesAreBoundedAndFailedOnesFirst(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	text.WriteString("<testsuite>")
	for i := range 3 * mostCases {
		fmt.Fprintf(&text, "<testcase name='%d'/>", i)
	}
	fmt.Fprintf(&text, "<testcase name='bad'><failure message='%s'/></testcase></testsuite>",
		strings.Repeat("m", 3*maxMessage))
	got := parseReports([]byte(text.String()), plainMask)
	if len(got.cases) != mostCases || got.passed != 3*mostCases || got.cases[0].GetName() != "bad" ||
		got.cases[0].GetOutcome() != deliveryv1.TestOutcome_TEST_OUTCOME_FAILED ||
		len(got.cases[0].GetMessage()) > maxMessage {
		t.Errorf("%d cases, %d passed, first %.100v", len(got.cases), got.passed, got.cases[0])
	}
}

func FuzzParseReports(f *testing.F) {
	f.Add([]byte("<testsuites><testsuite name='s'><testcase name='a' time='1,000.5'><failure message='m'>t</failure></testcase></testsuite></testsuites>"))
	f.Add([]byte("<testsuite><testsuite"))
	f.Fuzz(func(t *testing.T, text []byte) {
		got := parseReports(text, plainMask)
		if int32(len(got.cases)) > got.passed+got.failed+got.skipped || len(got.cases) > mostCases {
			t.Errorf("%d cases are listed, and %d counted", len(got.cases), got.passed+got.failed+got.skipped)
		}
	})
}
