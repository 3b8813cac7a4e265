package agent

import (
	"io"
	"net/http"

	"fairlead.dev/platform/mux/muxhttp"
)

// Answer is what people ask of the agent itself, as the tunnel hands it over once its policy let them through.
func (a *Agent) Answer(w http.ResponseWriter, r *http.Request, as muxhttp.Impersonated) {
	a.answer(w, r, as)
}

// Spool keeps a body on the disk of an agent that has nothing else.
func Spool(dir string, body io.Reader) error {
	file, _, err := (&Agent{cfg: Config{DataDir: dir}}).spool(body)
	if err == nil {
		err = file.Close()
	}
	return err
}
