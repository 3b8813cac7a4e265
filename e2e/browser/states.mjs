// Opens each page of a hub where something is wrong, and wants it said in words: states.mjs CHROMIUM LINK EMPTY_LINK CLUSTER SERVICE SOURCE [FOLDER]. EMPTY_LINK is
// of a hub with nothing in it. No gitcache and no tunnel is behind the consoles.
import { act, type } from "./person.mjs";

const [executablePath, link, emptyLink, cluster, service, source, folder] = process.argv.slice(2);
const hub = new URL(link).origin;
const lists = ["/", "/services", "/clusters", "/clusters?tab=figures", "/sources", "/globalservices", "/config", "/config?tab=secrets", "/config?tab=backends", "/access",
  "/access?tab=grants", "/access?tab=roles", "/access?tab=projects", "/access?tab=accounts", "/access?tab=tokens", "/access?tab=requests", "/access?tab=recordings",
  "/activity", "/activity?tab=audit", "/hub", "/hub?tab=gitcaches", "/hub?tab=tunnels", "/me"];
const tabs = ["overview", "objects", "diff", "logs", "events", "history", "tests", "config", "yaml"];
const things = (c, s, of, rest) => [`/cluster/${c}`, `/cluster/${c}/join`, `/cluster/${c}/explore/core/v1/pods`, ...tabs.map((t) => `/service/${s}?tab=${t}`),
  `/source/${of}`, `/source/${of}?tab=commits`, `/source/${of}?tab=files`, ...Object.entries(rest).map(([kind, name]) => `/${kind}/${name}`)];
const all = [...lists, ...things(cluster, service, source, { globalservice: "node-exporter", project: "shop", grant: "web-team", role: "viewer", configset: "regions" }),
  `/apply?kind=Service&name=${service}`];
const missing = things("no-such", "no-such", "no-such", Object.fromEntries(["globalservice", "project", "grant", "role", "serviceaccount", "configset", "secret", "backend", "sink",
  "agentconfig", "viewset", "alert", "recording"].map((k) => [k, "no-such"])));
const rpcs = "**/fairlead.*/*";

await act(executablePath, folder, async ({ logIn, check, outside, wrong }) => {
  const page = await logIn(link);
  page.setDefaultTimeout(20_000);

  // Goes to a page, waits until it asks for nothing any more, and looks at what it says.
  async function says(page, at, path, what) {
    await page.goto(at + path);
    const title = page.getByRole("heading", { level: 1 }).first();
    await title.waitFor({ timeout: 10_000 }).catch(() => undefined);
    const asking = page.locator("main").getByText(/^Asking /);
    const whole = await page.waitForFunction(() => ![...document.querySelectorAll("main p, main div")].some((e) => /^Asking /.test(e.textContent)), null, { timeout: 15_000 }).then(() => true, () => false);
    const text = await page.locator("main").innerText();
    if (!whole) wrong.push(`${what}, ${path}: still asks: ${await asking.allInnerTexts()}`);
    if (/\b(undefined|NaN|\[object)\b/.test(text)) wrong.push(`${what}, ${path}: ${text.match(/.*\b(undefined|NaN|\[object).*/)[0]}`);
    const heading = (await title.count()) ? await title.innerText() : "";
    if (heading === "") wrong.push(`${what}, ${path}: the page has no heading`);
    if (text.replace(heading, "").trim().length < 12) wrong.push(`${what}, ${path}: the page is blank: ${text}`);
    return text;
  }

  // Nothing that was asked for is answered, or all of it is refused. The pages have the hub's words, as text.
  for (const [what, answer, words] of [
    ["network cut", (r) => r.abort(), /does not answer|can't show/],
    ["403", (r) => r.fulfill({ status: 403, json: { code: "permission_denied", message: "<i>refused</i>: it needs a grant with role viewer" } }), /<i>refused<\/i>: it needs a grant/],
  ]) {
    await page.route(rpcs, answer);
    await page.route("**/clusters/**", answer);
    for (const path of all) {
      const text = await says(page, hub, path, what);
      if (!words.test(text)) wrong.push(`${what}, ${path}: nothing of it is said: ${text.slice(0, 300)}`);
    }
    await page.unroute(rpcs);
    await page.unroute("**/clusters/**");
  }

  // What is not there is said by its name.
  for (const path of missing) {
    const text = await says(page, hub, path, "404");
    if (!/no-such|route/.test(text.split("\n").slice(1).join("\n"))) wrong.push(`404, ${path}: ${text.slice(0, 300)}`);
  }

  // A hub with nothing in it.
  const empty = await logIn(emptyLink);
  for (const path of lists) await says(empty, new URL(emptyLink).origin, path, "empty hub");
  await empty.goto(`${new URL(emptyLink).origin}/`);
  await empty.getByRole("link", { name: "Join", exact: false }).first().waitFor();
  await check(empty, "empty-fleet");
  await empty.context().close();

  // Pages that are open stay as they are while the hub is restarted, say since when it is away, and go on by themselves.
  const kept = ["/", "/services", "/clusters", `/cluster/${cluster}`, `/service/${service}`, "/sources", `/source/${source}`, "/globalservices", "/config", "/activity", "/hub", "/access?tab=grants"];
  const open = [];
  for (const path of kept) {
    const p = await page.context().newPage();
    p.setDefaultTimeout(60_000);
    p.on("pageerror", (e) => wrong.push(`${path}: script: ${e.message}`));
    await says(p, hub, path, "open");
    open.push([path, p]);
  }
  const editor = await page.context().newPage();
  editor.setDefaultTimeout(60_000);
  await editor.goto(`${hub}/apply?kind=Sink`);
  await editor.getByLabel("YAML").waitFor();
  await type(editor, "typed and not sent");
  open.push(["/apply", editor]);
  const shown = new Map();
  for (const [path, p] of open) shown.set(path, (await p.locator("main").innerText()).length);
  const each = (what, does) => Promise.all(open.map(([path, p]) => does(p, path).catch((e) => wrong.push(`${what}, ${path}: ${e.message.slice(0, 300)}`))));
  const stays = async (p, path, what) => {
    const now = (await p.locator("main").innerText()).length;
    if (path !== "/apply" && now < shown.get(path) / 2) wrong.push(`${what}, ${path}: of ${shown.get(path)} characters ${now} are left`);
    if (path === "/apply" && !(await p.getByLabel("YAML").innerText()).includes("typed and not sent")) wrong.push(`${what}: what was typed is lost`);
  };
  const isLive = (p) => p.locator('.live-mark[data-live="true"]').waitFor();
  const isOffline = (p) => p.locator('.live-mark[data-live="false"]', { hasText: "offline since" }).waitFor();

  await outside("stop");
  await each("stop", async (p, path) => {
    await isOffline(p);
    await stays(p, path, "stop");
  });
  await outside("start");
  await each("start", async (p, path) => {
    await isLive(p);
    await stays(p, path, "start");
  });

  // The session is over: each page asks for a login above what it shows.
  await page.context().clearCookies();
  await each("session over", async (p, path) => {
    await p.getByRole("dialog", { name: "Log in again" }).waitFor();
    await stays(p, path, "session over");
  });
});
