package cloud

// Decoders are all that read what clouds send.
func Decoders() []func([]byte) (Login, error) {
	return []func([]byte) (Login, error){decodeKeys, decodeRole, decodeECR, decodeOAuth, decodeExchange}
}
