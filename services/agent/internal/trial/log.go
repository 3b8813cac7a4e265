package trial

import (
	"bytes"
	"strings"
)

const (
	// maxLog is what all logs of a run have together, in bytes.
	maxLog = 256 << 10
	// maxCases is what the cases of all reports of a run have together, in bytes: a message to the hub has 4 MiB at
	// most.
	maxCases = 2 << 20
	// slack is what is kept of a log before that: where it is cut, a secret may be cut, too, and be known to no mask.
	slack = 16 << 10
	// maxReport is how much of a log is kept from the first line on that looks like a JUnit report, in bytes.
	maxReport = 1 << 20
)

// sink takes the log of a container, however long it is: the end of it, and what may be reports. The zero value is
// ready.
type sink struct {
	end     []byte // up to twice maxLog+slack, so that it is seldom moved
	isCut   bool
	isOpen  bool // The log goes on after what was written, so that its last line may have a part of a secret, which no mask knows.
	lines   int64
	reports []byte
	line    []byte // the beginning of a line that has not come whole
}

// Write implements io.Writer. Write does not fail.
func (s *sink) Write(data []byte) (int, error) {
	s.lookForReports(data)
	s.lines += int64(bytes.Count(data, []byte("\n")))
	const most = maxLog + slack
	if len(data) > most {
		s.end, s.isCut = append(s.end[:0], data[len(data)-most:]...), true
		return len(data), nil
	}
	if len(s.end)+len(data) > 2*most {
		s.end, s.isCut = append(s.end[:0], s.end[len(s.end)-most:]...), true
	}
	s.end = append(s.end, data...)
	return len(data), nil
}

// lookForReports keeps all from the first beginning of a report on.
func (s *sink) lookForReports(data []byte) {
	if s.reports == nil {
		window := append(s.line, data...)
		at := bytes.Index(window, []byte(rootMarker))
		if at < 0 {
			s.line = append(s.line[:0], window[max(0, len(window)-len(rootMarker)+1):]...)
			return
		}
		s.line, s.reports, data = nil, make([]byte, 0, 4<<10), window[at:]
	}
	s.reports = append(s.reports, data[:min(len(data), maxReport-len(s.reports))]...)
}

// readReports is what the reports in the log say. Where its beginning has none, those in what is left of the log count.
func (s *sink) readReports(mask func(string) string) report {
	found := parseReports(s.reports, mask)
	if found.isEmpty() && len(s.reports) == maxReport {
		found = parseReports(s.end, mask)
	}
	return found
}

// maskedTail is the end of the log, masked, of at most maxLog bytes, and tells whether there was more.
func (s *sink) maskedTail(mask func(string) string) (text string, isCut bool) {
	end := s.end
	isCut = s.isCut
	if extra := len(end) - maxLog - slack; extra > 0 {
		end, isCut = end[extra:], true
	}
	last := 0 // bytes of a last line that may have a part of a secret
	if s.isOpen {
		last = len(end) - 1 - bytes.LastIndexByte(end, '\n')
	}
	if last <= slack {
		end, last = end[:len(end)-last], 0
	}
	text = mask(strings.ToValidUTF8(string(end), "\uFFFD"))
	if last > 0 {
		text = text[:max(0, len(text)-slack)]
	}
	if isCut {
		text = text[min(slack, len(text)):]
	}
	text, shorter := lastBytes(text, maxLog)
	return text, isCut || shorter
}

// lastBytes is the end of a text, from a whole line on where there is one.
func lastBytes(text string, most int) (string, bool) {
	if len(text) <= most {
		return strings.ToValidUTF8(text, ""), false
	}
	text = text[len(text)-most:]
	if _, rest, ok := strings.Cut(text, "\n"); ok && len(rest) > most/2 {
		text = rest
	}
	return strings.ToValidUTF8(text, ""), true
}

// shareRoom divides room among texts of these sizes: short ones have what they need, the others the same each.
func shareRoom(room int, sizes []int) []int {
	out := make([]int, len(sizes))
	left := len(sizes)
	for left > 0 {
		each, settled := room/left, false
		for i, size := range sizes {
			if out[i] == 0 && size >= 0 && size <= each {
				out[i], sizes[i], settled = size, -1, true
				room, left = room-size, left-1
			}
		}
		if !settled {
			for i, size := range sizes {
				if size > 0 {
					out[i] = each
				}
			}
			return out
		}
	}
	return out
}
