package kubectl

import (
	"slices"
	"testing"
)

func TestProxyGetsTheServersPath(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ args, want []string }{
		{[]string{"proxy", "--port=0"}, []string{"proxy", "--append-server-path", "--port=0"}},
		{[]string{"proxy", "--append-server-path=false"}, []string{"proxy", "--append-server-path=false"}},
		{[]string{"get", "pods", "proxy"}, []string{"get", "pods", "proxy"}},
		{nil, nil},
	} {
		if got := withServerPath(tt.args); !slices.Equal(got, tt.want) {
			t.Errorf("%q: got %q", tt.args, got)
		}
	}
}
