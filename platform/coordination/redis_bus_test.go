package coordination

import (
	"testing"
	"time"

	"fairlead.dev/platform/coordination/redistest"
)

// Between two looks of the connection's owner a topic may have gone and come: nothing has changed for Redis, but the
// new subscriber waits for its confirmation.
func TestATopicThatIsLeftAndTakenAgainIsConfirmed(t *testing.T) {
	t.Parallel()
	now, err := Config{URL: redistest.Start(t).URL()}.readSettings()
	if err != nil {
		t.Fatal(err)
	}
	clients, err := newRedisClients(now, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer clients.close()
	b := newRedisBus(clients)
	b.started = true // the test is the owner
	ps := clients.get().Subscribe(t.Context())
	defer ps.Close()
	subscribed := map[string]*busTopic{}
	for range 2 {
		topic, err := b.enter("t")
		if err != nil {
			t.Fatal(err)
		}
		if err := b.adjust(ps, subscribed); err != nil {
			t.Fatal(err)
		}
		m, err := ps.ReceiveTimeout(t.Context(), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		b.take(m)
		select {
		case <-topic.ready:
		default:
			t.Fatalf("the topic is not confirmed by %v", m)
		}
		b.leave("t")
	}
}
