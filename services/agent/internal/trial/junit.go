package trial

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
)

const (
	// maxDepth of elements in a report; writers nest suites three deep.
	maxDepth = 32
	// mostCases of a result are listed; all are counted.
	mostCases = 1000
	// maxName and maxMessage bound texts of a case, in bytes.
	maxName, maxMessage = 512, 2048
)

// report is what JUnit reports say.
type report struct {
	// cases are the first of them, failed ones first.
	cases                   []*deliveryv1.TestCase
	passed, failed, skipped int32
}

// isEmpty tells that there was no case.
func (r *report) isEmpty() bool { return r.passed+r.failed+r.skipped == 0 }

// addReport takes over another report.
func (r *report) addReport(other report) {
	r.passed, r.failed, r.skipped = r.passed+other.passed, r.failed+other.failed, r.skipped+other.skipped
	r.cases = append(r.cases, other.cases...)
	slices.SortStableFunc(r.cases, func(a, b *deliveryv1.TestCase) int { return cmp.Compare(caseSeverity(a), caseSeverity(b)) })
	r.cases = r.cases[:min(len(r.cases), mostCases)]
}

func caseSeverity(c *deliveryv1.TestCase) int {
	switch c.GetOutcome() {
	case deliveryv1.TestOutcome_TEST_OUTCOME_PASSED:
		return 2
	case deliveryv1.TestOutcome_TEST_OUTCOME_SKIPPED:
		return 1
	}
	return 0
}

// rootMarker is how the root of a report begins: <testsuites> or <testsuite>.
const rootMarker = "<testsuite"

// parseReports finds JUnit reports in a text with other lines around them. A report that is cut off, or no XML, counts
// for nothing.
func parseReports(text []byte, mask func(string) string) report {
	var all report
	for range 100 { // a text of nothing but beginnings is read so often, and no more
		at := bytes.Index(text, []byte(rootMarker))
		if at < 0 {
			break
		}
		one, read, ok := parseReport(text[at:], mask)
		if ok {
			all.addReport(one)
		} else {
			read = len(rootMarker)
		}
		text = text[at+read:]
	}
	return all
}

// parseReport reads the report that a text begins with, and tells its length. The decoder knows no entities but XML's
// own, and fetches nothing; what it reads is bounded by the text.
func parseReport(text []byte, mask func(string) string) (r report, read int, ok bool) {
	decoder := xml.NewDecoder(bytes.NewReader(text))
	p := parser{mask: mask}
	for {
		token, err := decoder.RawToken()
		if err != nil {
			return report{}, 0, false
		}
		switch token := token.(type) {
		case xml.StartElement:
			p.open = append(p.open, token.Name.Local)
			if len(p.open) > maxDepth {
				return report{}, 0, false
			}
			p.beginElement(token)
		case xml.EndElement:
			if len(p.open) == 0 || p.open[len(p.open)-1] != token.Name.Local {
				return report{}, 0, false
			}
			p.open = p.open[:len(p.open)-1]
			p.endElement(token.Name.Local)
			if len(p.open) == 0 {
				return p.report, int(decoder.InputOffset()), true
			}
		case xml.CharData:
			if p.failure != nil && p.failure.Len() < 2*maxMessage {
				p.failure.Write(token[:min(len(token), 2*maxMessage)])
			}
		case xml.Directive: // a report has no document type; one may hold entities that grow without end
			return report{}, 0, false
		}
	}
}

// parser gathers cases from the elements of a report.
type parser struct {
	report

	mask  func(string) string
	open  []string // elements
	suite string
	now   *deliveryv1.TestCase
	// failure is the text of the failure that is read; nil: none is.
	failure *strings.Builder
}

func (p *parser) beginElement(element xml.StartElement) {
	attribute := func(name string) string {
		for _, attr := range element.Attr {
			if attr.Name.Local == name {
				return attr.Value
			}
		}
		return ""
	}
	switch element.Name.Local {
	case "testsuite":
		p.suite = attribute("name")
	case "testcase":
		p.now = &deliveryv1.TestCase{
			Class: p.cleanText(cmp.Or(attribute("classname"), p.suite), maxName), Name: p.cleanText(attribute("name"), maxName),
			Outcome: deliveryv1.TestOutcome_TEST_OUTCOME_PASSED,
		}
		seconds, err := strconv.ParseFloat(strings.ReplaceAll(attribute("time"), ",", ""), 64)
		if err == nil && seconds >= 0 && seconds < 1e6 {
			p.now.Duration = durationpb.New(time.Duration(seconds * float64(time.Second)))
		}
	case "failure", "error":
		if p.now == nil {
			return
		}
		p.now.Outcome = deliveryv1.TestOutcome_TEST_OUTCOME_FAILED
		if element.Name.Local == "error" {
			p.now.Outcome = deliveryv1.TestOutcome_TEST_OUTCOME_ERROR
		}
		p.failure = &strings.Builder{}
		p.failure.WriteString(attribute("message"))
		p.failure.WriteString("\n")
	case "skipped":
		if p.now != nil && p.now.GetOutcome() == deliveryv1.TestOutcome_TEST_OUTCOME_PASSED {
			p.now.Outcome, p.now.Message = deliveryv1.TestOutcome_TEST_OUTCOME_SKIPPED, p.cleanText(attribute("message"), maxMessage)
		}
	}
}

func (p *parser) endElement(element string) {
	switch element {
	case "failure", "error":
		if p.failure != nil && p.now != nil {
			p.now.Message = p.cleanText(p.failure.String(), maxMessage)
		}
		p.failure = nil
	case "testcase":
		if p.now == nil {
			return
		}
		switch p.now.GetOutcome() {
		case deliveryv1.TestOutcome_TEST_OUTCOME_PASSED:
			p.passed++
		case deliveryv1.TestOutcome_TEST_OUTCOME_SKIPPED:
			p.skipped++
		default:
			p.failed++
		}
		if len(p.cases) < mostCases || caseSeverity(p.now) == 0 && len(p.cases) < 2*mostCases {
			p.cases = append(p.cases, p.now)
		}
		p.now = nil
	}
}

// cleanText masks a text, and cuts it.
func (p *parser) cleanText(text string, most int) string {
	return cutText(strings.TrimSpace(p.mask(text)), most)
}

// cutText shortens a text to so many bytes, of valid UTF-8.
func cutText(text string, most int) string {
	text = strings.ToValidUTF8(text, "")
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-3], "") + "..."
}
