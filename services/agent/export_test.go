package agent

import (
	"net/http"

	"fairlead.dev/platform/mux/muxhttp"
)

// Answer is what people ask of the agent itself, as the tunnel hands it over once its policy let them through.
func (a *Agent) Answer(w http.ResponseWriter, r *http.Request, as muxhttp.Impersonated) {
	a.answer(w, r, as)
}
