package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// line leads from one address to another, with a latency (in milliseconds) each way.
func line(ctx context.Context, from, to, latency string) error {
	logger := zerolog.New(io.Discard)
	proxy := toxiproxy.NewProxy(toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), logger), "line", from, to)
	if err := proxy.Start(); err != nil {
		return err
	}
	defer proxy.Stop()
	for _, way := range []string{"upstream", "downstream"} {
		toxic := fmt.Sprintf(`{"name":%q,"type":"latency","stream":%q,"attributes":{"latency":%s}}`, way, way, latency)
		if _, err := proxy.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return nil
}
