// Package compression is for messages that travel far: between agents and their hub. A hub has thousands of
// connections and a storm now and then, so its compressor keeps no memory between messages, and both sides leave
// small messages alone. Between the parts of a hub nothing is compressed.
package compression

import (
	"connectrpc.com/connect"
	"github.com/klauspost/compress/gzip"
)

const (
	name = "gzip"
	// LeastBytes of a message are worth the effort.
	LeastBytes = 2 << 10
)

// Handler is an option of handlers that answer agents.
func Handler() connect.HandlerOption {
	return connect.WithHandlerOptions(connect.WithCompression(name, decompressor, compressor), connect.WithCompressMinBytes(LeastBytes))
}

// Client is an option of agents' clients.
func Client() connect.ClientOption {
	return connect.WithClientOptions(connect.WithAcceptCompression(name, decompressor, compressor),
		connect.WithSendCompression(name), connect.WithCompressMinBytes(LeastBytes))
}

func decompressor() connect.Decompressor { return new(gzip.Reader) }

func compressor() connect.Compressor {
	w, err := gzip.NewWriterLevel(nil, gzip.StatelessCompression)
	if err != nil {
		panic(err) // the level is a constant
	}
	return w
}
