package signin

import (
	"crypto/sha256"
	"encoding/base64"
	"html/template"
	"net/http"
)

// onceScript sends the code of a link, which is behind # so that no server but this one, no log and no preview of the
// link gets it, when the person asks for it. A link that names a page leads a browser that is logged in there at once.
const onceScript = `
const wanted = new URLSearchParams(location.search).get("to");
const to = new URL(wanted || "/", location.origin);
const leave = () => location.replace(to.origin === location.origin ? to.href : "/");
const say = (text) => { document.getElementById("said").textContent = text; };
const button = document.getElementById("go");
const code = location.hash.slice(1);
if (!code) { button.disabled = true; say("This address has no code: open the whole link."); }
button.onclick = async () => {
  button.disabled = true;
  try {
    const answer = await fetch(location.pathname, {method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify({code})});
    if (!answer.ok) { say(await answer.text()); return; }
    say("You are logged in as " + (await answer.json()).user + ".");
    leave();
  } catch (e) { button.disabled = false; say("The hub can't be reached: " + e.message); }
};
if (wanted) { fetch("/v1/session").then((answer) => { if (answer.ok) leave(); }).catch(() => {}); }
`

const pageStyle = `body{font:16px/1.5 system-ui,sans-serif;max-width:36rem;margin:15vh auto;padding:0 1rem;color-scheme:light dark}button{font:inherit;padding:.4rem 1rem}`

const (
	onceHTML = `<!doctype html><html lang="en"><meta charset="utf-8"><title>Log in to Fairlead</title><meta name="viewport" content="width=device-width"><style>` + pageStyle +
		`</style><h1>Fairlead</h1><p>This link logs you in, once.</p><p><button id="go">Log in</button></p><p id="said" role="status"></p><script>` + onceScript + `</script></html>`
	doneHTML = `<!doctype html><html lang="en"><meta charset="utf-8"><title>Logged in to Fairlead</title><meta name="viewport" content="width=device-width"><style>` + pageStyle +
		`</style><h1>Fairlead</h1><p>You are logged in as {{.}}. <a href="/">Go to the fleet</a></p></html>`
)

func inlineHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// pageHeader lets a page do what ours does and nothing else.
func pageHeader(h http.Header) {
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; script-src "+inlineHash(onceScript)+"; style-src "+inlineHash(pageStyle)+
		"; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
}

func (b *browsers) oncePage(w http.ResponseWriter, _ *http.Request) {
	pageHeader(w.Header())
	_, _ = w.Write([]byte(onceHTML)) // the client may be gone
}

func donePage(w http.ResponseWriter, user string) {
	page, err := template.New("done").Parse(doneHTML)
	if err != nil {
		return // the page is a constant
	}
	pageHeader(w.Header())
	_ = page.Execute(w, user) // the client may be gone
}
