// Takes pictures of the pages over a seeded console: screenshots.mjs CHROMIUM LINK FOLDER [PICTURES]. Those that the documentation shows go into
// PICTURES, too.
import { writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
const { chromium } = createRequire(process.env.NODE_MODULES + "/")("playwright-core");

const [executablePath, link, folder, pictures] = process.argv.slice(2);
const hub = new URL(link).origin;
// Each page, what is there when it is whole, and what is at the top of the picture.
const pages = [
  ["fleet", "/?group=region"],
  ["services", "/services"],
  ["service", "/service/checkout", "Its last lines before the restart"],
  ["objects", "/service/storefront?tab=objects"],
  ["diff", "/service/checkout?tab=diff", "14 the same", "main nav.tabs"],
  ["history", "/service/checkout?tab=history"],
  ["clusters", "/clusters"],
  ["clusters-figures", "/clusters?tab=figures"],
  ["cluster", "/cluster/edge-0001", "CrashLoopBackOff", ".head:has(h2:text('In the cluster'))"],
  ["cluster-away", "/cluster/edge-0013"],
  ["join", "/cluster/edge-0003/join"],
  ["global-service", "/globalservice/node-exporter"],
  ["access", "/access"],
  ["grants", "/access?tab=grants"],
  ["projects", "/access?tab=projects"],
  ["tokens", "/access?tab=tokens&subject=user%3Aada"],
  ["requests", "/access?tab=requests&open=ask&all=1"],
  ["recordings", "/access?tab=recordings"],
  ["sets", "/config"],
  ["secrets", "/config?tab=secrets"],
  ["backends", "/config?tab=backends"],
  ["audit", "/activity?tab=audit"],
  ["edit", "/apply?kind=Service&name=checkout", "apiVersion"],
  ["source", "/source/team-003"],
  ["sources", "/sources"],
  ["activity", "/activity"],
  ["hub", "/hub"],
  ["gitcaches", "/hub?tab=gitcaches"],
  ["tunnels", "/hub?tab=tunnels"],
  ["me", "/me"],
];
// Those of the documentation.
const documented = ["fleet", "services", "service", "diff", "clusters-figures", "cluster", "edit-dark", "service-phone"];
const shots = pages.flatMap(([name, path, whole, top]) => [
  [name, path, "light", 1280, whole, top],
  [`${name}-dark`, path, "dark", 1280, whole, top],
  [`${name}-phone`, path, "light", 390, whole, top],
]);

// What the agent of a service finds is what the seeded console has of it, found now and about what the hub hands out.
function compared(page, name) {
  return page.evaluate(async (name) => {
    const ask = async (method) => {
      const headers = { "Content-Type": "application/json", "Connect-Protocol-Version": "1" };
      const answer = await fetch(`/fairlead.console.v1.${method}`, { method: "POST", headers, body: JSON.stringify({ name }) });
      if (!answer.ok) throw new Error(`${method}: ${await answer.text()}`);
      return answer.json();
    };
    const { service } = await ask("ServiceService/GetService");
    const { diff } = await ask("ObjectService/GetServiceDiff");
    return { service: name, digest: service.status?.hub?.digest, observedTime: new Date().toISOString(), diff };
  }, name);
}

// No cluster is behind a seeded console. What the page of a service asks of one is answered here.
async function answerAsCluster(route) {
  const { pathname } = new URL(route.request().url());
  const [, compares] = pathname.match(/\/fairlead\/v1\/services\/([^/]+)\/diff$/) ?? [];
  if (compares) return route.fulfill({ json: await compared(route.request().frame().page(), compares) });
  const name = pathname.split("/").at(pathname.endsWith("/log") ? -2 : -1);
  const state = { waiting: { reason: "CrashLoopBackOff" } };
  const lastState = { terminated: { exitCode: 1 } };
  if (pathname.endsWith("/log"))
    return route.fulfill({ body: "listening on :8080\nconnecting to db:5432\npanic: dial tcp 10.0.0.9:5432: connect: connection refused\n" });
  if (/\/pods\/[^/]+$/.test(pathname))
    return route.fulfill({
      json: {
        metadata: { name, namespace: "shop" },
        spec: { containers: [{ name: "app" }] },
        status: { phase: "Running", containerStatuses: [{ name: "app", ready: false, restartCount: 14, state, lastState }] },
      },
    });
  if (pathname.endsWith("/events"))
    return route.fulfill({
      json: { items: [{ type: "Warning", reason: "BackOff", message: "Back-off restarting failed container app", lastTimestamp: new Date().toISOString() }] },
    });
  return route.fulfill({ status: 404, json: { kind: "Status", code: 404, message: `${name} not found` } });
}

const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] }); // tests run as root, too
try {
  const context = await browser.newContext({ ignoreHTTPSErrors: true, timezoneId: "Europe/Berlin", locale: "en-GB" });
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  await page.route("**/clusters/edge-*/**", answerAsCluster);
  const painter = await context.newCDPSession(page); // it writes WebP
  await page.goto(link);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByRole("heading", { name: "Fleet", level: 1 }).waitFor();
  for (const [name, path, theme, width, whole, top] of shots) {
    await page.setViewportSize({ width, height: width < 600 ? 844 : 800 });
    await page.evaluate((theme) => localStorage.setItem("theme", theme), theme);
    await page.goto(hub + path);
    await page.getByRole("heading", { level: 1 }).waitFor();
    await page.getByText(/^Asking /).first().waitFor({ state: "detached" });
    if (whole) await page.getByText(whole).first().waitFor();
    if (top)
      await page.locator(top).first().evaluate((e) => {
        e.style.scrollMarginTop = "16px";
        e.scrollIntoView();
      });
    await page.evaluate(() => document.fonts.ready);
    await page.screenshot({ path: join(folder, `${name}.png`) });
    if (pictures && documented.includes(name)) {
      const { data } = await painter.send("Page.captureScreenshot", { format: "webp", quality: 80 });
      writeFileSync(join(pictures, `${name}.webp`), Buffer.from(data, "base64"));
    }
    console.log(`${name}.png`);
  }
} finally {
  await browser.close();
}
