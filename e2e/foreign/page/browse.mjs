// Opens pages in Chromium, and prints what each of them says: browse.mjs CHROMIUM URL...
import { createRequire } from "node:module";
const { chromium } = createRequire(process.env.NODE_MODULES + "/")("playwright-core");

const [executablePath, ...urls] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] }); // tests run as root, too
try {
  const said = [];
  for (const url of urls) {
    const page = await browser.newPage();
    page.setDefaultTimeout(30_000);
    page.on("pageerror", (e) => console.error("page:", e.message));
    page.on("console", (m) => console.error("console:", m.text()));
    await page.goto(url);
    await page.waitForFunction(() => window.said);
    const patience = new Promise((_, reject) => setTimeout(() => reject(new Error(`${url} says nothing`)), 30_000).unref());
    said.push(await Promise.race([page.evaluate(() => window.said), patience]));
  }
  console.log(JSON.stringify(said));
} finally {
  await browser.close();
}
