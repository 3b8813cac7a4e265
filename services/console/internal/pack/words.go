package pack

import "slices"

// words are texts that have a byte of their own: most of the states that there are hundreds of thousands of consist of
// them. What is stored has their numbers: a word never changes and never goes, and new ones come at the end. There is
// room for 128.
var words = []string{ //nolint:gochecknoglobals // a constant
	// Reports.
	`{"service":"`, `","sequence":`, `,"phase":"healthy","digest":"sha256:`, `,"phase":"`, `","digest":"sha256:`,
	`","commit":"`, `","appliedDigest":"sha256:`, `","appliedCommit":"`, `","appliedTime":"`, `","observedTime":"`,
	`","message":"`, `","objectsTotal":`, `,"objectsHealthy":`, `,"objects":[{`, `","traceparent":"00-`, `-00"}`, `-01"}`,
	`progressing`, `degraded`, `applying`, `,"tests":{"id":"`, `","syncProblem":"`,
	// Truths of the hub.
	`{"source":"`, `","ref":"`, `refs/heads/main`, `","artifact":{"digest":"sha256:`, `","size":`, `,"files":`,
	`},"resolveTime":"`, `","content":"`, `","revision":{"commit":"`, `"problem":{`,
	// Deployments.
	`{"cause":"commit"`, `{"cause":"spec"`, `{"cause":"`, `,"author":"`, `","author":"`, `,"commit":{"commit":"`,
	`","commitTime":"`, `","subject":"`, `},"specRevision":`, `,"specRevision":`, `,"configRevision":"`, `,"fetchTime":"`,
	`,"content":"`,
	// The audit trail.
	`{"id":"`, `","time":"`, `","actor":{"kind":"user","name":"`, `","actor":{"kind":"service","name":"`,
	`","actor":{"kind":"agent","name":"`, `","actor":{"kind":"`, `","name":"`, `","groups":["`,
	`"groups":["fairlead:admins"]},"action":"`, `"},"action":"`, `"]},"action":"`, `catalog.create`, `catalog.update`,
	`catalog.delete`, `","cluster":"`, `","resource":"service`, `","resource":"`, `","namespace":"`, `","verb":"`,
	`","code":`, `,"code":200`, `"bytesSent":"`, `"bytesReceived":"`, `","duration":"`, `","duration":"0.000000000s`,
	`","traceId":"`, `","remote":"`, `127.0.0.1`, `","reason":"`, `","request":"`, `","recorder":"service:console"`,
	`","recorder":"service:`, `","recorder":"`, `"before":"{\"spec\":{`, `"after":"{\"spec\":{`, `"before":"`, `"after":"`,
	`\"cluster\":\"`, `\",\"path\":\"`, `\",\"ref\":\"`, `\",\"source\":\"`, `\",\"cluster\":\"`, `\",\"`, `\":\"`,
	`\"}}"}`, `"impersonated":{"`,
	// Events.
	`","type":"service.`, `","type":"`, `","severity":"SEVERITY_INFO","`, `","severity":"SEVERITY_`, `","service":"`,
	`delivered`, `healthy`, `applied`, `All objects of `, ` services in `, ` clusters are healthy.`, `,"count":`,
	`,"members":[{"service":"`, `"},{"service":"`, `,"traceparent":"00-`, `":{"`,
}

// A word is found by its first bytes, and those that begin alike from the longest to the shortest.
const (
	leastWord = 4
	tableBits = 10
)

var wordTable = func() (table [1 << tableBits][]byte) { //nolint:gochecknoglobals // a constant
	for i, w := range words {
		slot := &table[wordSlot(w[0], w[1], w[2], w[3])]
		at := 0
		for at < len(*slot) && len(words[(*slot)[at]]) > len(w) {
			at++
		}
		*slot = slices.Insert(*slot, at, byte(i))
	}
	return table
}()

func wordSlot(a, b, c, d byte) int {
	n := uint32(a) | uint32(b)<<8 | uint32(c)<<16 | uint32(d)<<24
	return int(n * 2654435761 >> (32 - tableBits))
}

// longestWord is the longest word that a text begins with, by its number, and how long it is; 0: there is none.
func longestWord(text []byte) (n int, word byte) {
	if len(text) < leastWord {
		return 0, 0
	}
	for _, i := range wordTable[wordSlot(text[0], text[1], text[2], text[3])] {
		if w := words[i]; len(w) <= len(text) && string(text[:len(w)]) == w {
			return len(w), i
		}
	}
	return 0, 0
}
