package coordination_test

import (
	"strings"
	"testing"

	"fairlead.dev/platform/coordination"
)

func TestOpen(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"", "memory:", "memory://",
		"redis://localhost", "redis://u:p@host:6379/3", "rediss://[::1]:6379", "unix:///tmp/redis.sock",
		"redis://host?pool_size=3",
		"redis+sentinel://h1:26379,h2:26379,[::1]:26379/0?master_name=m",
		"rediss+sentinel://:p%40ss@h1/1?master_name=m&username=u&password=p",
		"redis+cluster://u:p@h1:6379,h2:6379", "rediss+cluster://h1", "REDIS://host",
	} {
		c, err := coordination.Open(url)
		if err != nil {
			t.Errorf("%q: %v", url, err)
			continue
		}
		if err := c.Close(); err != nil {
			t.Errorf("close %q: %v", url, err)
		}
	}
}

func TestOpenRefusesWithoutRepeatingTheURL(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"http://u:s3cret@host", "s3cret", "redis://u:s3#cret@host", "redis://u:s3cret@host:port",
		"redis://u:s3cret@host/one",
		"redis://u:s3cret@host/?nonsense=s3cret", "unix://u:s3cret@", "redis+sentinel://u:s3cret@h1,h2/0",
		"redis+sentinel://u:s3cret@h1,h2:x/0?master_name=m", "redis+cluster://u:s3cret@",
		"redis+cluster://u:s3cret@h1,,h2:1",
		"redis+cluster://u:s3/cret@h1", "redis+cluster:s3cret", "\x00s3cret:",
	} {
		c, err := coordination.Open(url)
		if err == nil {
			_ = c.Close()
			t.Errorf("%q is accepted", url)
			continue
		}
		if strings.Contains(err.Error(), "s3") || strings.Contains(err.Error(), "cret") {
			t.Errorf("%q: the error repeats it: %v", url, err)
		}
	}
}

func FuzzOpen(f *testing.F) {
	f.Add("redis+sentinel://u:p@h1:1,h2:2/0?master_name=m")
	f.Add("redis://u:p@h")
	f.Fuzz(func(t *testing.T, url string) {
		c, err := coordination.Open(url)
		if err == nil {
			_ = c.Close()
		}
	})
}
