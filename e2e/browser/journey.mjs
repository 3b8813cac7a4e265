// Walks through the pages in Chromium as a person does: journey.mjs CHROMIUM LINK SERVICE. It prints a line when something has to
// happen outside of the browser, and goes on when a line comes back.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { network, type, typed } from "./person.mjs";
const { chromium } = createRequire(process.env.NODE_MODULES + "/")("playwright-core");

const [executablePath, link, service] = process.argv.slice(2);
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const outside = async (what) => {
  console.log(what);
  await lines.next();
};
const wire = await network();
const browser = await chromium.launch({ executablePath, timeout: 120_000, args: ["--no-sandbox", ...wire.args] }); // tests run as root, too
const wrong = [];
try {
  const context = await browser.newContext({ ignoreHTTPSErrors: true });
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  page.on("pageerror", (e) => wrong.push(`script: ${e.message}`));
  page.on("console", (m) => m.type() === "error" && !/status of (40[0134]|429|50[234])|net::ERR_CONNECTION_CLOSED|response code \(403\)/.test(m.text()) && wrong.push(`console: ${m.text()}`));

  // An address from a chat, before the login.
  const hub = new URL(link).origin;
  await page.goto(`${hub}/service/${service}`);
  await page.getByLabel("Login link").waitFor();

  await page.goto(link);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByRole("heading", { name: "Fleet", level: 1 }).waitFor();
  const cookies = await context.cookies();
  const session = cookies.find((c) => c.name === "__Host-fairlead");
  if (!session?.httpOnly || !session.secure || session.sameSite !== "Strict") wrong.push(`cookie: ${JSON.stringify(session)}`);
  const stored = await page.evaluate(() => JSON.stringify(localStorage) + document.cookie + location.href);
  if (stored.includes(session?.value) || stored.includes("fairlead-login-")) wrong.push(`a script can read the credential: ${stored}`);

  // From the fleet to one service, by keyboard.
  await page.keyboard.press("g");
  await page.keyboard.press("s");
  await page.getByRole("heading", { name: "Services" }).waitFor();
  await page.keyboard.press("/");
  await page.keyboard.type(service);
  await page.waitForURL(new RegExp(`q=${service}`));
  await page.getByRole("link", { name: service, exact: true }).focus();
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: `${service} healthy` }).waitFor();
  await page.getByText("same content as the hub").waitFor();

  // Held by a person, with a reason that everybody sees; and resumed.
  await page.getByRole("button", { name: "Hold" }).click();
  await page.locator("dialog[open]").getByLabel("Reason").fill("looks odd <b>today</b>");
  await page.locator("dialog[open]").getByRole("button", { name: "Hold" }).click();
  await page.getByText("looks odd <b>today</b>").first().waitFor();
  await page.getByRole("button", { name: "Resume" }).click();
  await page.locator("dialog[open]").getByRole("button", { name: "Resume" }).click();
  await page.getByText("looks odd").first().waitFor({ state: "detached" });

  await page.getByRole("link", { name: "Objects" }).click();
  await page.locator("summary", { hasText: "ConfigMap" }).waitFor();
  await page.getByRole("link", { name: "History" }).click();
  await page.getByRole("button", { name: "Roll back" }).first().waitFor();

  // A bad commit shows by itself, with file and cause, on the page that is open.
  await page.getByRole("link", { name: "Overview" }).click();
  // Meanwhile the network is cut: the page says since when it is offline, keeps what it shows, in grey, and catches up.
  await page.locator('.live-mark[data-live="true"]').waitFor();
  wire.cut();
  await page.locator('.live-mark[data-live="false"]', { hasText: /offline since \d\d:\d\d:\d\d/ }).waitFor();
  await page.getByText(/Offline since \d\d:\d\d:\d\d, showing what was known then/).waitFor();
  await outside("break");
  await page.locator(".stale", { hasText: "objects healthy" }).waitFor();
  await page.getByRole("heading", { name: `${service} healthy` }).waitFor();
  wire.mend();
  await page.getByRole("heading", { name: `${service} failed` }).waitFor();
  await page.locator('.live-mark[data-live="true"]').waitFor();
  await page.getByText("Offline since").waitFor({ state: "detached" });
  await page.getByRole("region", { name: "Why" }).getByText("broken.yaml").waitFor();
  await page.goto(hub);
  await page.getByRole("link", { name: service, exact: true }).first().waitFor();
  await outside("mend");
  await page.goto(`${hub}/service/${service}?tab=yaml`);
  await page.getByRole("heading", { name: `${service} healthy` }).waitFor();
  await page.getByText(`name: ${service}`).waitFor();

  // By name to its YAML: a mistake is told at its line, and what is there already changes nothing.
  await page.keyboard.press("Control+k");
  await page.getByLabel("Name of a page or a thing").fill("new sink");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "New Sink" }).waitFor();
  await page.goto(`${hub}/apply?kind=Service&name=${service}`);
  const text = await typed(page);
  await type(page, text.replace("spec:", "spec:\n  clutser: x"));
  await page.getByRole("button", { name: "Show what changes" }).click();
  await page.getByText("clutser is no field here").waitFor();
  await type(page, text.replace("cluster: ", "cluster: no-such-"));
  await page.getByRole("button", { name: "Show what changes" }).click();
  await page.getByRole("alert").getByText("no-such-").waitFor();
  await type(page, text);
  await page.getByRole("button", { name: "Show what changes" }).click();
  await page.getByText("stays as it is").waitFor();

  await page.goto(`${hub}/access?tab=check&subject=user%3Aeve&verb=deploy&kind=Service&name=${service}`);
  await page.getByText("refused", { exact: true }).waitFor();
  await page.goto(`${hub}/activity?tab=audit&actor=ada`);
  await page.getByText("session.begin").first().waitFor();
  await page.goto(`${hub}/cluster/local-a/join`);
  await page.getByRole("link", { name: "Open local-a" }).waitFor();

  // What a cluster answers is for scripts of the pages, at the same address, and acts as no page.
  const said = await page.evaluate(async () => {
    const answer = await fetch("/clusters/local-a/api/v1/namespaces/default");
    const { metadata } = await answer.json();
    const fails = (element, at) =>
      new Promise((done) => {
        element.onload = () => done(false);
        element.onerror = () => done(true);
        element.src = at;
        document.body.append(element);
      });
    return {
      name: metadata.name,
      policy: answer.headers.get("Content-Security-Policy"),
      sniff: answer.headers.get("X-Content-Type-Options"),
      script: await fails(document.createElement("script"), "/clusters/local-a/version"),
      worker: await navigator.serviceWorker.register("/clusters/local-a/version").then(() => "registered", (e) => e.name),
    };
  });
  if (said.name !== "default" || !said.policy?.startsWith("sandbox;") || said.sniff !== "nosniff" || !said.script || said.worker === "registered")
    wrong.push(`a cluster's answer: ${JSON.stringify(said)}`);
  await page.goto(`${hub}/clusters/local-a/api/v1/namespaces`);
  await page.waitForURL(`${hub}/cluster/local-a`);
  await page.getByText("fairlead kubeconfig local-a").waitFor();
  await page.goto(`${hub}/service/no-such-service`);
  await page.getByRole("alert").getByText("no-such-service").waitFor();

  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("Login link").waitFor();
  if (wrong.length) throw new Error(wrong.join("\n"));
  console.log("done");
} catch (e) {
  const pages = browser.contexts().flatMap((c) => c.pages());
  for (const p of pages) console.error(p.url(), await p.innerText("body").catch(String));
  throw e;
} finally {
  await browser.close();
  wire.close();
  process.stdin.destroy(); // which would keep this process alive
}
