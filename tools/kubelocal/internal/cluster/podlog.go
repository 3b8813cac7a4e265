package cluster

import (
	"context"
	"fmt"
	"os"
	"time"
)

// writePodLog writes the log that every container of a cluster shows, one line a second, so that
// "logs -f" has something to follow. The format is that of container runtimes. The log is begun again with each run and
// grows by about 6 MB a day.
//
// A failure ends the log and nothing else: what kwok then serves is what was written before.
func writePodLog(ctx context.Context, path string) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return
	}
	defer file.Close()
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for i := 1; ; i++ {
		_, err := fmt.Fprintf(file, "%s stdout F line %d of a container played by kwok\n", time.Now().UTC().Format(time.RFC3339Nano), i)
		if err != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
