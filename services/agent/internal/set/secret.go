package set

import (
	"encoding/base64"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// plainSecret moves stringData to data, as the API server does. Sent as stringData the fields would never be ours:
// nobody could tell who changes them, and one that left the manifest would stay. A value that the API server is to
// refuse is left as it is.
func plainSecret(obj *unstructured.Unstructured) {
	texts, ok := obj.Object["stringData"].(map[string]any)
	data, isMap := obj.Object["data"].(map[string]any)
	if obj.GetKind() != "Secret" || obj.GetAPIVersion() != "v1" || !ok || !isMap && obj.Object["data"] != nil {
		return
	}
	for _, value := range texts {
		if _, ok := value.(string); !ok {
			return
		}
	}
	if data == nil {
		data = map[string]any{}
	}
	for key, value := range texts {
		text, _ := value.(string)
		data[key] = base64.StdEncoding.EncodeToString([]byte(text))
	}
	delete(obj.Object, "stringData")
	if len(data) > 0 {
		obj.Object["data"] = data
	}
}
