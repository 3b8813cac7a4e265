// Explores a cluster in Chromium as a person does: explore.mjs CHROMIUM LINK VIEWERS_LINK CLUSTER [FOLDER]. Pictures go into the folder. It prints
// a line when something has to happen outside of the browser, and goes on when a line comes back.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { type, typed } from "./person.mjs";
import { readFileSync } from "node:fs";
import { join } from "node:path";
const require = createRequire(process.env.NODE_MODULES + "/");
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const [executablePath, link, viewersLink, cluster, folder] = process.argv.slice(2);
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const outside = async (what) => {
  console.log(what);
  await lines.next();
};
const browser = await chromium.launch({ executablePath, timeout: 120_000, args: ["--no-sandbox", "--disable-gpu"] }); // tests run as root, too
const wrong = [];
const hub = new URL(link).origin;
const explore = `${hub}/cluster/${cluster}/explore`;

async function logIn(link) {
  const context = await browser.newContext({ ignoreHTTPSErrors: true, viewport: { width: 1280, height: 800 } });
  const page = await context.newPage();
  page.setDefaultTimeout(120_000);
  page.on("pageerror", (e) => wrong.push(`script: ${e.message}`));
  page.on("console", (m) => m.type() === "error" && !/status of (4\d\d|50[234])/.test(m.text()) && wrong.push(`console: ${m.text()}`));
  // What a service worker, a cache or a value of a Secret would leave in a response.
  page.on("response", async (r) => {
    if (!r.url().includes("/clusters/") || /watch=1|follow=true/.test(r.url())) return;
    const text = await r.text().catch(() => "");
    if (/planted-in-a|cGxhbnRlZC1pbi1h/.test(text)) wrong.push(`a Secret's value reaches the browser: ${r.url()}`);
  });
  await page.goto(link);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByRole("heading", { name: "Fleet", level: 1 }).waitFor();
  return page;
}

// Both themes, with nothing that keeps a person from reading or using the page. axe comes through the debugger, so that the pages' policy stays as it is.
async function check(page, name) {
  for (const theme of ["light", "dark"]) {
    await page.evaluate((theme) => (document.documentElement.dataset.theme = theme), theme);
    await page.evaluate(axe);
    const found = await page.evaluate(() => globalThis.axe.run({ resultTypes: ["violations"] }));
    for (const v of found.violations.filter((v) => ["serious", "critical"].includes(v.impact)))
      wrong.push(`axe, ${name}, ${theme}: ${v.id}: ${v.nodes.slice(0, 3).map((n) => `${n.html.slice(0, 160)} ${n.failureSummary?.split("\n")[1] ?? ""}`).join(" | ")}`);
    if (folder) await page.screenshot({ path: join(folder, `${name}-${theme}.png`) });
  }
  await page.evaluate(() => delete document.documentElement.dataset.theme);
}

try {
  const page = await logIn(link);
  const open = async (address, heading) => {
    await page.goto(`${explore}/${address}`);
    if (heading) await page.getByRole("heading", { name: heading }).first().waitFor();
  };
  for (const [name, path] of [["fleet", "/"], ["services", "/services"], ["clusters", "/clusters"], ["cluster", `/cluster/${cluster}`], ["sources", "/sources"],
    ["globals", "/globalservices"], ["config", "/config"], ["access", "/access"], ["activity", "/activity"], ["audit", "/activity?tab=audit"], ["hub", "/hub"],
    ["me", "/me"], ["join", "/join"], ["service", `/service/hello-${cluster}`], ["objects", `/service/hello-${cluster}?tab=objects`], ["history", `/service/hello-${cluster}?tab=history`],
    ["values", `/service/hello-${cluster}?tab=config`], ["apply", "/apply?kind=Sink"]]) {
    await page.goto(hub + path);
    await page.getByRole("heading", { level: 1 }).waitFor();
    await page.getByText("Asking the console").first().waitFor({ state: "detached" });
    await check(page, name);
  }

  // From the cluster to its pods, and what comes meanwhile.
  await page.goto(`${hub}/cluster/${cluster}`);
  await page.getByRole("link", { name: "Pods", exact: true }).click();
  await page.getByRole("heading", { name: `${cluster} Pod` }).waitFor();
  await page.getByLabel("Namespace").fill("explored");
  await page.waitForURL(/ns=explored/);
  await page.getByRole("link", { name: /^web-/ }).first().waitFor();
  await page.getByText("2 shown").waitFor();
  await check(page, "pods");
  await open("core/v1/configmaps?ns=explored", "ConfigMap");
  await page.getByText("live", { exact: false }).last().waitFor();
  await outside("create came-later");
  await page.getByRole("link", { name: "came-later" }).waitFor();

  // The merged log of a deployment: searched, paused, taken along.
  await open("apps/v1/deployments?ns=explored&obj=explored/web&tab=logs", "explored/web");
  await page.getByText(/line \d+ of a container played/).first().waitFor();
  await page.getByLabel("Find in the log").fill("/line [0-9]*7 of/");
  await page.waitForURL(/grep=/);
  await page.getByText(/line \d*7 of a container played/).first().waitFor();
  await page.getByRole("button", { name: "Pause" }).click();
  await page.getByRole("button", { name: /Paused, [1-9]/ }).waitFor();
  await check(page, "logs");
  const saved = page.waitForEvent("download");
  await page.getByRole("button", { name: "Download" }).click();
  const text = readFileSync(await (await saved).path(), "utf8");
  if (!/line \d*7 of/.test(text) || /line \d*8 of/.test(text) || !/web-\w+-\w+\/main /.test(text)) wrong.push(`the saved log: ${text.slice(0, 400)}`);

  // From an object of a service to the cluster, and the log of all its pods.
  await page.goto(`${hub}/service/hello-${cluster}?tab=objects`);
  await page.locator("summary", { hasText: "ConfigMap" }).waitFor();
  await page.getByRole("link", { name: /^default\/hello/ }).first().click();
  await page.getByRole("heading", { name: /^default\/hello/ }).waitFor();
  await page.goto(`${hub}/service/hello-${cluster}?tab=logs`);
  await page.getByText(/line \d+ of a container played/).first().waitFor();

  // Scaled, edited with a look at what changes, restarted.
  await open("apps/v1/deployments?ns=explored&obj=explored/web", "explored/web");
  await page.getByText("MinimumReplicasAvailable").waitFor();
  await check(page, "deployment");
  await page.getByRole("button", { name: "Scale" }).click();
  await page.locator("dialog[open]").getByLabel("Replicas").fill("3");
  await page.locator("dialog[open]").getByRole("button", { name: "Scale" }).click();
  await outside("replicas 3");
  await open("apps/v1/deployments?ns=explored&obj=explored/web&tab=edit", "explored/web");
  const yaml = await typed(page);
  await type(page, yaml.replace("replicas: 3", "replicas: minus"));
  await page.getByRole("button", { name: "Show what changes" }).click();
  await page.getByRole("alert").waitFor();
  await type(page, yaml.replace("metadata:\n", "metadata:\n  labels:\n    tier: front\n"));
  await page.getByRole("button", { name: "Show what changes" }).click();
  await page.getByLabel("What changes").getByText("+     tier: front").waitFor();
  await outside("replicas 3"); // nothing is written yet
  await check(page, "edit");
  await page.getByRole("button", { name: "Write" }).click();
  await page.getByText("Written.").waitFor();
  await outside("replicas 3front");

  // What is typed while an edit is being written stays, and is what changes next.
  const more = yaml.replace("metadata:\n", "metadata:\n  labels:\n    tier: middle\n");
  await type(page, more);
  await page.getByRole("button", { name: "Show what changes" }).click();
  await page.getByLabel("What changes").getByText("+     tier: middle").waitFor();
  await page.route(/deployments\/web\?fieldManager=fairlead-pages$/, async (r) => {
    await type(page, more.replace("tier: middle", "tier: back"));
    await r.continue();
  }, { times: 1 });
  await page.getByRole("button", { name: "Write" }).click();
  await page.getByText("Written.").waitFor();
  await outside("replicas 3middle");
  if (!/tier: back/.test(await typed(page))) wrong.push("what is typed while an edit is being written is thrown away");
  await page.getByRole("button", { name: "Show what changes" }).click();
  await page.getByLabel("What changes").getByText("-     tier: middle").waitFor();
  await page.getByLabel("What changes").getByText("+     tier: back").waitFor();

  // A shell in a pod, by keyboard.
  await open("core/v1/pods?ns=explored", "Pod");
  await page.getByRole("link", { name: /^web-/ }).first().click();
  await page.getByRole("link", { name: "Shell" }).click();
  await page.locator(".xterm-helper-textarea").waitFor();
  await page.getByText(/[$#]\s*$/).first().waitFor();
  await page.keyboard.type("echo typed-$((40+2)); exit 3\n");
  await page.getByText("typed-42").first().waitFor();
  await page.getByText("ended with exit code 3").waitFor();
  await check(page, "shell");

  // Restarting replaces the pods, so that the shell came first.
  await open("apps/v1/deployments?ns=explored&obj=explored/web", "explored/web");
  await page.getByRole("button", { name: "Restart" }).click();
  await page.locator("dialog[open]").getByRole("button", { name: "Restart" }).click();
  await page.locator("dialog[open]").waitFor({ state: "detached" });
  await page.getByRole("link", { name: "YAML" }).click();
  await page.getByText("kubectl.kubernetes.io/restartedAt").first().waitFor();
  await page.getByText(/managers of fields/).waitFor();

  // Hostile things are text, large ones are cut, and Secrets stay where they are.
  await open("explored.example.com/v1/boats", "Boat");
  await page.getByText("<script>window.stolen=1</script>\\u{1b}[31mred \\u{202e}turned").waitFor();
  await page.getByRole("link", { name: "hostile" }).click();
  await page.getByRole("link", { name: "YAML" }).click();
  await page.getByText("</pre><img src=x onerror=window.stolen=1>").waitFor();
  await page.getByRole("link", { name: "Events" }).click();
  await page.getByText("<img src=x onerror=window.stolen=1>\\u{1b}]0;title\\u{7}").waitFor();
  await open("core/v1/configmaps?ns=explored&obj=explored/large&tab=yaml", "explored/large");
  await page.getByText("0123456789abcdef").first().waitFor();
  await open("core/v1/secrets", "Secret");
  await page.getByText("Choose a namespace").waitFor();
  await open("core/v1/secrets?ns=explored", "Secret");
  await page.getByRole("link", { name: "hidden" }).click();
  await page.getByText("Values of Secrets are not shown").waitFor();
  await page.getByText("Opaque").waitFor();
  if (await page.evaluate(() => globalThis.stolen)) wrong.push("what a cluster holds has run in a page");

  // Deleting says what goes along, and a large thing wants its name.
  await open("core/v1/namespaces?obj=explored", "explored");
  await page.getByRole("button", { name: "Delete" }).click();
  await page.locator("dialog[open]").getByText("Everything in it goes:").waitFor();
  for (const line of ["1 Deployment: web", /^\d Pods?: web-/]) await page.locator("dialog[open] li li").getByText(line).waitFor();
  await page.locator("dialog[open]").getByRole("button", { name: "Delete" }).isDisabled().then((d) => d || wrong.push("a namespace can be deleted without its name"));
  await check(page, "delete");
  await page.locator("dialog[open]").getByRole("button", { name: "Cancel" }).click();
  await open("core/v1/configmaps?ns=explored&obj=explored/came-later", "explored/came-later");
  // The question is about the object that was there when it was asked, and not about another one of its name.
  const configMap = /\/configmaps\/came-later$/;
  await page.getByRole("button", { name: "Delete" }).click();
  await page.locator("dialog[open]").waitFor();
  await page.route(configMap, async (r) => {
    const answer = await r.fetch({ headers: { ...r.request().headers(), "sec-fetch-site": "same-origin" } }); // as the browser says
    const is = await answer.json();
    await r.fulfill({ response: answer, json: { ...is, metadata: { ...is.metadata, uid: "another" } } });
  });
  await page.locator("dialog[open]").waitFor({ state: "detached" });
  if (!(await page.evaluate(() => document.activeElement === document.querySelector("h1")))) wrong.push("the focus goes with an open dialog");
  await page.unroute(configMap);
  await page.reload();
  await page.getByRole("button", { name: "Delete" }).click();
  await page.locator("dialog[open]").getByRole("button", { name: "Delete" }).click();
  await page.getByRole("alert").getByText("not found").waitFor();
  await open("core/v1/nosuchkinds");
  await page.getByText("The cluster has no kind nosuchkinds").waitFor();

  // A second person may look and nothing more, and is told why.
  const other = await logIn(viewersLink);
  await other.goto(`${explore}/apps/v1/deployments?ns=explored&obj=explored/web`);
  const scale = other.getByRole("button", { name: /^Scale/ });
  await other.locator('button[aria-disabled="true"]', { hasText: "Scale" }).waitFor();
  await scale.click({ force: true }); // it keeps the focus, and does nothing
  if (await other.locator("dialog[open]").count()) wrong.push("a viewer may scale");
  await check(other, "viewer");
  await other.goto(`${explore}/core/v1/secrets?ns=explored`);
  await other.getByRole("alert").getByText(/cannot list resource "secrets"|may not/).waitFor();

  if (wrong.length) throw new Error(wrong.join("\n"));
  console.log("done");
} catch (e) {
  const pages = browser.contexts().flatMap((c) => c.pages());
  for (const p of pages) {
    console.error(p.url(), (await p.innerText("body").catch(String)).slice(0, 3000));
    if (folder) await p.screenshot({ path: join(folder, `failed-${pages.indexOf(p)}.png`) }).catch(() => undefined);
  }
  if (wrong.length) console.error(wrong.join("\n"));
  throw e;
} finally {
  await browser.close();
  process.stdin.destroy(); // which would keep this process alive
}
