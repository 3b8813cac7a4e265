// Takes pictures of the pages over a seeded console: screenshots.mjs CHROMIUM LINK FOLDER [THEME WIDTH PATH NAME].
import { createRequire } from "node:module";
import { join } from "node:path";
const { chromium } = createRequire(process.env.NODE_MODULES + "/")("playwright-core");

const [executablePath, link, folder, ...one] = process.argv.slice(2);
const hub = new URL(link).origin;
const pages = [
  ["fleet", "/?group=region"],
  ["services", "/services"],
  ["service", "/service/checkout"],
  ["objects", "/service/storefront?tab=objects"],
  ["diff", "/service/checkout?tab=diff"],
  ["history", "/service/checkout?tab=history"],
  ["clusters", "/clusters"],
  ["clusters-figures", "/clusters?tab=figures"],
  ["cluster", "/cluster/edge-0001"],
  ["cluster-away", "/cluster/edge-0013"],
  ["join", "/cluster/edge-0003/join"],
  ["global-service", "/globalservice/node-exporter"],
  ["access", "/access"],
  ["audit", "/activity?tab=audit"],
  ["edit", "/apply?kind=Service&name=checkout"],
  ["source", "/source/team-003"],
  ["sources", "/sources"],
  ["activity", "/activity"],
  ["hub", "/hub"],
  ["me", "/me"],
];
const shots = one.length
  ? [[one[3], one[2], one[0], Number(one[1])]]
  : pages.flatMap(([name, path]) => [
      [name, path, "light", 1280],
      [`${name}-dark`, path, "dark", 1280],
      [`${name}-phone`, path, "light", 390],
    ]);
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] }); // tests run as root, too
try {
  const context = await browser.newContext({ ignoreHTTPSErrors: true, timezoneId: "Europe/Berlin", locale: "en-GB" });
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  await page.goto(link);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByRole("heading", { name: "Fleet", level: 1 }).waitFor();
  for (const [name, path, theme, width] of shots) {
    await page.setViewportSize({ width, height: width < 600 ? 844 : 800 });
    await page.evaluate((theme) => localStorage.setItem("theme", theme), theme);
    await page.goto(hub + path);
    await page.getByRole("heading", { level: 1 }).waitFor();
    await page.getByText("Asking the console").first().waitFor({ state: "detached" });
    await page.evaluate(() => document.fonts.ready);
    await page.screenshot({ path: join(folder, `${name}.png`) });
    console.log(`${name}.png`);
  }
} finally {
  await browser.close();
}
