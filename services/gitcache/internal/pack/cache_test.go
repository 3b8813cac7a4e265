package pack

import (
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/services/gitcache/internal/git"
)

func TestTheCacheForgetsWhatIsNotUsed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := NewCache(1 << 20)
		for at := range int64(100) {
			c.putObject(1, at, git.Blob, make([]byte, 100))
		}
		<-time.After(time.Minute)
		if _, _, ok := c.getObject(1, 7); !ok {
			t.Error("it is forgotten at once")
		}
		c.putObject(2, 0, git.Blob, make([]byte, 50))
		c.Expire(time.Minute / 2)
		if len(c.byKey) != 2 || c.order.Len() != 2 || c.bytes != 150+2*cachedExtra {
			t.Errorf("%d objects of %d bytes are left", len(c.byKey), c.bytes)
		}
		if _, _, ok := c.getObject(1, 7); !ok {
			t.Error("what was used is forgotten")
		}
	})
}
