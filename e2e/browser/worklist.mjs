// Works through a list of services with the keyboard, syncs single objects, saves what is shown, and looks at a chart's newer
// version: worklist.mjs CHROMIUM LINK SERVICE CHARTS LEAVES [FOLDER]. The cluster LEAVES leaves. There is no gitcache behind the console.
import { act, type, typed } from "./person.mjs";

const [executablePath, link, service, charts, leaves, folder] = process.argv.slice(2);
const hub = new URL(link).origin;

await act(executablePath, folder, async ({ logIn, check, outside, wrong }) => {
  const page = await logIn(link);

  // What is saved is what is shown.
  await page.goto(`${hub}/services?q=${encodeURIComponent("state = failed")}&sort=name`);
  const names = page.locator("tbody td.name a");
  await names.first().waitFor();
  for (const [button, begins] of [["CSV", "name,"], ["YAML", "rows:"]]) {
    const saved = page.waitForEvent("download");
    await page.getByRole("button", { name: button, exact: true }).click();
    const text = (await (await (await saved).createReadStream()).toArray()).join("");
    if (!text.startsWith(begins)) wrong.push(`${button} begins with ${text.slice(0, 40)}`);
    for (const name of await names.allTextContents()) if (!text.includes(name)) wrong.push(`${button} lacks ${name}`);
  }

  // On a phone numbers say what they are.
  await page.setViewportSize({ width: 390, height: 844 });
  await page.locator("td[data-label=Since]").first().waitFor();
  await page.setViewportSize({ width: 1280, height: 800 });

  // What is chosen has its actions in sight, and no row moves for that, nor is one that gets the focus behind it.
  for (const height of [800, 844]) {
    await page.setViewportSize({ width: height === 844 ? 390 : 1280, height });
    await page.goto(`${hub}/services?sort=name`);
    const last = names.last();
    await last.waitFor();
    const boxes = page.getByRole("checkbox", { name: /^Choose (?!all)/ });
    const top = async () => (await boxes.nth(1).boundingBox()).y;
    const before = await top();
    await boxes.nth(0).check();
    await page.getByText("1 chosen:").waitFor();
    if ((await top()) !== before) wrong.push(`the first box that is ticked moves rows by ${(await top()) - before}`);
    await page.keyboard.press("o");
    await page.waitForFunction(() => document.activeElement?.textContent === "Sync");
    if ((await top()) !== before) wrong.push(`the way to the actions moves rows by ${(await top()) - before}`);
    await last.focus();
    const seen = await last.evaluate((e) => {
      const { x, y, height } = e.getBoundingClientRect();
      return e.contains(document.elementFromPoint(x + 4, y + height / 2));
    });
    if (!seen) wrong.push("a row with the focus is behind what is below the list");
    const bar = page.getByText("1 chosen:");
    const covered = await bar.evaluate((e) => {
      const { x, y, height } = e.getBoundingClientRect();
      return !e.parentElement.contains(document.elementFromPoint(x + 4, y + height / 2));
    });
    if (covered) wrong.push("something lies over what is chosen");
    await page.getByRole("button", { name: "Choose none" }).focus();
    await page.keyboard.press("Enter");
    await bar.waitFor({ state: "detached" });
    if (await page.evaluate(() => document.activeElement === document.body)) wrong.push("the focus goes with what was chosen");
  }
  await page.setViewportSize({ width: 1280, height: 800 });
  await page.goto(`${hub}/services?q=${encodeURIComponent("state = failed")}&sort=name`);
  await names.first().waitFor();

  // J and K go through the list without a way back to it.
  const list = await names.allTextContents();
  await page.getByRole("link", { name: list[0], exact: true }).click();
  await page.getByRole("heading", { name: list[0], level: 1 }).waitFor();
  await page.keyboard.press("J");
  await page.getByRole("heading", { name: list[1], level: 1 }).waitFor();
  await page.keyboard.press("K");
  await page.getByRole("heading", { name: list[0], level: 1 }).waitFor();
  await page.getByRole("button", { name: "Sync" }).waitFor();
  await page.keyboard.press("o");
  await page.waitForFunction(() => document.activeElement?.textContent === "Sync");

  // An action by its name: it asks, and a link in it leads to what it would do.
  await page.keyboard.press("Control+k");
  await page.getByLabel("Name of a page or a thing").fill("sync");
  await page.getByRole("option", { name: "Sync on this page" }).waitFor();
  await page.keyboard.press("Enter");
  await page.locator("dialog[open]").getByRole("link", { name: "What would change" }).click();
  await page.waitForURL(/tab=diff/);
  await page.locator("dialog[open]").waitFor({ state: "detached" });

  // Of those that a text fits as well, the worse come first.
  await page.keyboard.press("Control+k");
  await page.getByLabel("Name of a page or a thing").fill("web");
  const found = page.getByRole("option", { name: /^web-/ });
  await found.first().waitFor();
  const words = ["failed", "degraded", "unknown", "progressing", "healthy"];
  const states = (await found.allTextContents()).map((text) => words.findIndex((w) => text.endsWith(w))).filter((i) => i >= 0);
  if (new Set(states).size < 2) wrong.push(`all that is found is alike: ${states}`);
  if (states.some((s, i) => s < states[i - 1])) wrong.push(`what is worse comes later: ${await found.allTextContents()}`);
  await page.keyboard.press("Escape");

  // A version that the range of services keeps out, and its values.
  await page.goto(`${hub}/source/${charts}`);
  const kept = page.getByRole("row", { name: /redis \^19\.1/ });
  await kept.getByText("20.1.0").waitFor();
  await check(page, "source-newer");
  await kept.getByRole("link", { name: "its values" }).click();
  const shown = async (chart, version) => {
    const has = [await page.getByLabel("Chart", { exact: true }).inputValue(), await page.getByLabel("Version or range").inputValue()];
    if (`${has}` !== `${[chart, version]}`) wrong.push(`the values of ${has} are shown, not those of ${[chart, version]}`);
  };
  await page.waitForURL(/tab=values/);
  await shown("redis", "20.1.0");
  const read = page.waitForRequest((r) => r.url().endsWith("/ReadFile"));
  await page.getByLabel("Version or range").fill("");
  await page.getByRole("button", { name: "Show", exact: true }).click();
  const sent = (await read).postDataBuffer().toString("latin1");
  if (!sent.includes("chart:redis@") || sent.includes("20.1.0")) wrong.push("the values of another version are read");
  await page.waitForURL(/version=$/);
  await shown("redis", "");
  await check(page, "source-values");

  // Some objects are synced, by name.
  await page.goto(`${hub}/service/${service}?tab=objects`);
  const box = page.getByRole("checkbox", { name: /^Choose Deployment\/shop\// }).first();
  await box.scrollIntoViewIfNeeded();
  const at = (await box.boundingBox()).y;
  await box.check();
  const chosen = (await box.getAttribute("aria-label")).replace("Choose ", "");
  await page.getByText("1 object is chosen").waitFor();
  if ((await box.boundingBox()).y !== at) wrong.push(`the first object that is chosen moves by ${(await box.boundingBox()).y - at}`);
  await check(page, "objects-chosen");
  await page.getByRole("button", { name: "Sync these" }).click();
  const dialog = page.locator("dialog[open]");
  await dialog.getByRole("heading", { name: chosen }).waitFor();
  const asked = page.waitForRequest((r) => r.url().endsWith("/RequestSync"));
  await dialog.getByRole("button", { name: "Sync these" }).click();
  if (!(await asked).postDataBuffer().toString("latin1").includes(chosen)) wrong.push("the sync does not name the object");
  await page.getByText("The hub has taken it in.").waitFor();

  // What goes with a deletion is said before, and a large one wants the name; what others name stays; what went comes back.
  await page.goto(`${hub}/service/${service}?tab=yaml`);
  await page.getByRole("button", { name: "Delete", exact: true }).click();
  const sure = dialog.getByRole("button", { name: "Delete", exact: true });
  await dialog.getByText(/Cluster edge-\d+ loses 1\d objects:/).waitFor();
  if (await sure.isEnabled()) wrong.push("a service with many objects is deleted without its name");
  await check(page, "delete-service");
  await dialog.getByRole("textbox").fill(service);
  if (!(await sure.isEnabled())) wrong.push("a service is not deleted with its name");
  await dialog.getByRole("button", { name: "Cancel" }).click();
  await page.goto(`${hub}/configset/regions`);
  await page.getByRole("button", { name: "Delete", exact: true }).click();
  await sure.click();
  await dialog.getByRole("alert").waitFor();
  await dialog.getByRole("button", { name: "Cancel" }).click();
  await page.goto(`${hub}/grant/web-team`);
  await page.getByRole("button", { name: "Delete", exact: true }).click();
  await sure.click();
  await page.waitForURL(/access\?tab=grants/);
  const tray = page.getByRole("region", { name: "What you did" });
  await page.getByRole("link", { name: "web-team", exact: true }).waitFor({ state: "detached" });
  await tray.getByRole("button", { name: "Undo" }).click();
  await tray.getByText("Delete grant web-team: undone").waitFor();
  await page.getByRole("link", { name: "web-team", exact: true }).waitFor();
  await page.goto(`${hub}/access?tab=roles`);
  await page.getByRole("link", { name: "operator", exact: true }).waitFor();

  // What was deleted comes back on the page of its name, too, which says who deleted it and what was changed of it.
  await page.goto(`${hub}/grant/web-team`);
  await page.getByRole("button", { name: "Delete", exact: true }).click();
  await sure.click();
  await page.waitForURL(/access\?tab=grants/);
  await page.waitForFunction(() => document.activeElement?.textContent === "Access"); // the focus comes with the page
  await tray.getByRole("button", { name: "Close" }).press("Enter");
  await tray.waitFor({ state: "detached" });
  if (await page.evaluate(() => document.activeElement === document.body)) wrong.push("the focus goes with the tray");
  await page.goto(`${hub}/grant/web-team`);
  const deleted = page.getByRole("region", { name: "Deleted" });
  await deleted.getByText("user:ada deleted it").waitFor();
  await page.getByRole("region", { name: "Changes in the catalog" }).getByText("deleted by user:ada").first().waitFor();
  await check(page, "deleted");
  await deleted.getByRole("button", { name: "Bring it back" }).click();
  await page.getByText("kind: Grant").waitFor();
  await page.getByRole("region", { name: "Changes in the catalog" }).getByText("undeleted by user:ada").first().waitFor();

  // A session makes no token, and says which command does; it revokes one.
  await page.goto(`${hub}/access?tab=tokens`);
  await page.getByRole("button", { name: "New token" }).click();
  await dialog.getByLabel("For", { exact: true }).fill("deploys the shop");
  await dialog.getByLabel("At most the role").fill("deployer");
  await dialog.getByLabel("Only in projects").fill("shop, web");
  await dialog.getByText("fairlead token create --description 'deploys the shop' --lifetime 720h --role deployer --project shop --project web").waitFor();
  await check(page, "token-new");
  await dialog.getByRole("button", { name: "Close" }).click();
  await outside("token");
  const token = page.getByRole("row", { name: /deploys <b>shop<\/b>/ });
  await token.getByText("role deployer, in shop").waitFor();
  await check(page, "tokens");
  await token.getByRole("button", { name: "Revoke" }).click();
  await dialog.getByRole("button", { name: "Revoke" }).click();
  await token.waitFor({ state: "detached" });
  await outside("token is revoked");

  // What an alert has found is acknowledged and silenced with a reason.
  await page.goto(`${hub}/apply?kind=Alert`);
  await type(page, "apiVersion: fairlead.dev/v1\nkind: Alert\nmetadata: {name: nodes-away}\nspec:\n  description: Look at the <i>rack</i>\n  clusters: {all: true}\n  when: nodes.total > 0\n  recover: 5m\n");
  await page.getByRole("button", { name: "Show what changes" }).click();
  await page.getByText("is created").waitFor();
  await page.getByRole("button", { name: "Apply", exact: true }).click();
  await page.getByRole("link", { name: "nodes-away", exact: true }).click();
  const now = page.getByRole("region", { name: "Now" });
  await now.getByText("fires", { exact: true }).waitFor();
  await now.getByText("What to do: Look at the <i>rack</i>").waitFor();
  await page.locator("pre", { hasText: "recover: 5m" }).waitFor();
  await now.getByRole("button", { name: "Acknowledge" }).click();
  await dialog.getByLabel("Reason").fill("the rack <u>moves</u>");
  await dialog.getByRole("button", { name: "Acknowledge" }).click();
  await now.getByText("user:ada works on it: the rack <u>moves</u>").waitFor();
  await now.getByRole("button", { name: "Silence" }).click();
  if (await dialog.getByRole("option", { name: "when somebody ends it" }).count()) wrong.push("an alert is silenced without an end");
  await dialog.getByLabel("Reason").fill("until it stands");
  await dialog.getByRole("button", { name: "Silence" }).click();
  await now.getByText(/silent until .*\(in 1h\d*m?\d*s?.*by user:ada: until it stands|silent until .*\(in 2h\).*by user:ada: until it stands/).waitFor();
  await check(page, "alert");
  await now.getByRole("button", { name: "Unsilence" }).click();
  await dialog.getByRole("button", { name: "Unsilence" }).click();
  await now.getByText("silent until").waitFor({ state: "detached" });

  // A backend is read when a person wants it, and says why it can't be.
  await page.goto(`${hub}/apply?kind=Backend`);
  await type(page, "apiVersion: fairlead.dev/v1\nkind: Backend\nmetadata: {name: files}\nspec:\n  files: {folder: shop}\n  interval: 1m30s\n");
  await page.getByRole("button", { name: "Show what changes" }).click();
  await page.getByText("is created").waitFor();
  await page.getByRole("button", { name: "Apply", exact: true }).click();
  await page.getByRole("link", { name: "files", exact: true }).click();
  await page.locator("pre", { hasText: "interval: 1m30s" }).waitFor();
  await page.getByLabel("Path").fill("db.yaml");
  await page.getByRole("button", { name: "Read it now" }).click();
  await now.getByRole("alert").getByText(/config-dir/).waitFor();
  await check(page, "backend");

  // What is typed while an edit is being written stays, also over another page, and can be written next.
  await page.goto(`${hub}/apply?kind=Backend&name=files`);
  const backend = await typed(page);
  const every = (interval) => backend.replace(/interval: .*/, `interval: ${interval}`);
  const look = page.getByRole("button", { name: "Show what changes" });
  await type(page, every("2m"));
  await look.click();
  await page.getByText("What would change").waitFor();
  await page.route(/ApplyService\/Apply$/, async (r) => {
    await type(page, every("3m"));
    await r.continue();
  }, { times: 1 });
  const written = page.waitForResponse(/ApplyService\/Apply$/);
  await page.getByRole("button", { name: "Apply", exact: true }).click();
  await written;
  await page.locator("button:enabled", { hasText: "Show what changes" }).waitFor();
  await page.getByRole("link", { name: "Services", exact: true }).first().click();
  await page.getByRole("heading", { name: "Services", level: 1 }).waitFor();
  await page.goBack();
  if (!/interval: 3m/.test(await typed(page))) wrong.push("what is typed while an edit is being written is thrown away");
  await look.click();
  await page.getByText("What would change").waitFor();
  await page.getByRole("button", { name: "Apply", exact: true }).click();
  await page.getByText("Written").waitFor();
  if (await page.getByText("It was changed since you began").count()) wrong.push("a page takes what it wrote itself for a change of others");

  // An address that is copied shows another tab the same: filter, order, columns, page, and what is chosen.
  const same = async (what, rows) => {
    const shown = await page.locator(rows).allInnerTexts();
    const chosen = await page.locator("input[type=checkbox]:checked").count();
    const other = await page.context().newPage();
    other.setDefaultTimeout(60_000);
    await other.goto(page.url());
    const alike = ([rows, texts, checked]) =>
      `${[...document.querySelectorAll(rows)].map((e) => e.innerText)}` === texts && document.querySelectorAll("input[type=checkbox]:checked").length === checked;
    await other.waitForFunction(alike, [rows, `${shown}`, chosen]).catch(() => undefined); // what differs is said below
    const theirs = await other.locator(rows).allInnerTexts();
    const also = await other.locator("input[type=checkbox]:checked").count();
    if (shown.length === 0 || `${theirs}` !== `${shown}` || also !== chosen) wrong.push(`${what}: the copied address shows ${theirs.length} rows and ${also} chosen, not ${shown.length} and ${chosen}`);
    await other.close();
    return shown;
  };
  await page.goto(`${hub}/services?q=${encodeURIComponent("cluster : edge")}&sort=name&cols=cluster,project`);
  await names.first().waitFor();
  const first = await same("services", "tbody td.name a");
  await page.getByRole("button", { name: "Next" }).click();
  await page.getByText("Page 2").waitFor();
  await page.getByRole("link", { name: first[0], exact: true }).waitFor({ state: "detached" });
  const second = await names.allInnerTexts();
  if (second.some((n) => first.includes(n))) wrong.push("two pages have the same service");
  await page.getByLabel(`Choose ${second[0]}`, { exact: true }).check();
  await page.getByLabel(`Choose ${second[1]}`, { exact: true }).check();
  await page.waitForURL(/sel=/);
  await same("page 2 of services", "tbody td.name a");
  await page.goBack();
  await page.getByRole("link", { name: first[0], exact: true }).waitFor();
  await page.goForward();
  await page.getByRole("link", { name: second[0], exact: true }).waitFor();
  await page.getByRole("button", { name: /^(Back|First page)$/ }).click();
  await page.getByRole("link", { name: first[0], exact: true }).waitFor();
  await page.goto(`${hub}/service/${service}?tab=objects&as=namespace`);
  await page.getByLabel("Find an object").fill("deployment");
  await page.getByRole("checkbox", { name: /^Choose Deployment\/shop\// }).first().check();
  await page.waitForURL(/find=deployment/);
  await page.waitForFunction(() => [...document.querySelectorAll("main ul.lines input")].every((e) => e.ariaLabel.startsWith("Choose Deployment/")));
  await same("objects", "main ul.lines li a");
  await page.goto(`${hub}/clusters?tab=figures&sort=${encodeURIComponent("pods.not_ready desc")}`);
  await names.first().waitFor();
  await same("clusters by figures", "tbody td.name a");
  await page.goto(`${hub}/activity?tab=audit&actor=ada`);
  await page.getByText("session.begin").first().waitFor();
  await same("the audit trail", "tbody td:nth-child(3)");

  // The longest names that the hub takes stay within the page, on screens of any width.
  const long = (name) => name.padEnd(63, "x");
  const source = { git: { url: `https://git.example.com/${"p".repeat(900)}` } };
  const spec = { source: long("source"), path: "d".repeat(900), ref: "b".repeat(250), cluster: long("cluster"), project: long("project") };
  await page.evaluate(async (resources) => {
    const headers = { "Content-Type": "application/json", "Connect-Protocol-Version": "1" };
    const body = JSON.stringify({ resources });
    const answer = await fetch("/fairlead.console.v1.ApplyService/Apply", { method: "POST", headers, body });
    if (!answer.ok) throw new Error(await answer.text());
  }, [
    { project: { metadata: { name: long("project") }, spec: { sources: ["*"], clusters: { all: true } } } },
    { source: { metadata: { name: long("source") }, spec: source } },
    { cluster: { metadata: { name: long("cluster") }, spec: {} } },
    { service: { metadata: { name: long("service") }, spec } },
    { globalService: { metadata: { name: long("global") }, spec: { clusters: { all: true }, template: { ...spec, cluster: "" } } } },
  ]);
  const pages = ["project", "source", "cluster", "service", "globalservice"].map((kind) => `/${kind}/${long(kind.replace("service", "") || kind)}`);
  for (const path of ["/", ...pages]) {
    await page.goto(hub + path);
    await page.getByText(/^Asking /).first().waitFor({ state: "detached" });
    for (const width of [320, 390, 700, 1280]) {
      await page.setViewportSize({ width, height: 800 });
      const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      if (over > 0) wrong.push(`${path} with long names is ${over} wider than ${width}`);
    }
  }

  // A cluster leaves: its name is typed, its credentials go, and nothing else.
  await page.goto(`${hub}/cluster/${leaves}`);
  await page.getByRole("button", { name: "Leave" }).click();
  await dialog.getByText("Its agent loses its access for good").waitFor();
  const take = dialog.getByRole("button", { name: "Take its credentials away" });
  if (await take.isEnabled()) wrong.push("a cluster leaves without its name");
  await dialog.getByRole("textbox").fill(leaves);
  await check(page, "leave");
  await take.click();
  await page.getByText(/The cluster left .* ago: its agent has no credentials/).waitFor();
  await page.getByRole("button", { name: "Leave" }).waitFor({ state: "detached" });
});
