// What scripts share that act as people in Chromium: logins, a look for what keeps people from using a page, and what happens outside of the browser.
import { createRequire } from "node:module";
import { createServer } from "node:http";
import { connect } from "node:net";
import { createInterface } from "node:readline";
import { readFileSync } from "node:fs";
import { join } from "node:path";
const require = createRequire(process.env.NODE_MODULES + "/");
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

// What stands in the editor of YAML, and what a person puts in its place: by the clipboard, since the editor draws the lines that are seen.
async function clip(page, kind, text) {
  const at = page.getByLabel("YAML");
  await at.click();
  await page.keyboard.press("ControlOrMeta+a");
  return at.evaluate(
    (at, { kind, text }) => {
      const clipboardData = new DataTransfer();
      if (text !== undefined) clipboardData.setData("text/plain", text);
      at.dispatchEvent(new ClipboardEvent(kind, { clipboardData, bubbles: true, cancelable: true }));
      return clipboardData.getData("text/plain");
    },
    { kind, text },
  );
}
export const typed = (page) => clip(page, "copy");
export const type = (page, text) => clip(page, "paste", text);

// The network between a browser and the hub, as a proxy that can be cut: then nothing passes any more, and nobody is told. Connections of before a cut
// are gone after it.
export async function network() {
  const pairs = new Set();
  let isCut = false;
  const proxy = createServer().on("connect", (request, near, head) => {
    const { hostname, port } = new URL(`http://${request.url}`);
    const far = connect(port, hostname, () => {
      near.write("HTTP/1.1 200 OK\r\n\r\n");
      far.write(head);
      if (!isCut) near.pipe(far).pipe(near);
    });
    const pair = [near, far];
    pairs.add(pair);
    for (const end of pair)
      end.on("error", () => undefined).on("close", () => {
        pairs.delete(pair);
        for (const one of pair) one.destroy();
      });
  });
  await new Promise((done) => proxy.listen(0, "127.0.0.1", done));
  return {
    args: [`--proxy-server=http://127.0.0.1:${proxy.address().port}`, "--proxy-bypass-list=<-loopback>"],
    cut() {
      isCut = true;
      for (const [near, far] of pairs) {
        near.unpipe(far).pause();
        far.unpipe(near).pause();
      }
    },
    mend() {
      isCut = false;
      for (const [near] of pairs) near.destroy();
    },
    close: () => proxy.close(),
  };
}

// Runs act({ logIn, check, outside, wrong }) and says "done" if nothing was wrong. Pictures go into folder, if there is one.
export async function act(executablePath, folder, act) {
  const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
  const browser = await chromium.launch({ executablePath, timeout: 120_000, args: ["--no-sandbox", "--disable-gpu"] }); // tests run as root, too
  const wrong = [];

  // It prints a line when something has to happen outside of the browser, and goes on when a line comes back.
  async function outside(what) {
    console.log(what);
    await lines.next();
  }

  async function logIn(link, options = {}) {
    const context = await browser.newContext({ ignoreHTTPSErrors: true, viewport: { width: 1280, height: 800 }, ...options });
    const page = await context.newPage();
    page.setDefaultTimeout(120_000);
    page.on("pageerror", (e) => wrong.push(`script: ${e.message}`));
    page.on("console", (m) => m.type() === "error" && !/status of (4\d\d|50[234])|net::ERR/.test(m.text()) && wrong.push(`console: ${m.text()}`));
    await page.goto(link);
    await page.getByRole("button", { name: "Log in" }).click();
    await page.getByRole("heading", { name: "Fleet", level: 1 }).waitFor();
    return page;
  }

  // Both themes, and the width of a phone. axe comes through the debugger, so that the pages' policy stays as it is.
  async function check(page, name) {
    for (const theme of ["light", "dark"]) {
      await page.evaluate((theme) => (document.documentElement.dataset.theme = theme), theme);
      await page.evaluate(axe);
      const found = await page.evaluate(() => globalThis.axe.run({ resultTypes: ["violations"] }));
      for (const v of found.violations.filter((v) => ["serious", "critical"].includes(v.impact)))
        wrong.push(`axe, ${name}, ${theme}: ${v.id}: ${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 200)).join(" | ")}`);
      if (folder) await page.screenshot({ path: join(folder, `${name}-${theme}.png`) });
    }
    await page.evaluate(() => delete document.documentElement.dataset.theme);
    const size = page.viewportSize();
    await page.setViewportSize({ width: 390, height: 844 });
    const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    if (over > 0) {
      const wide = await page.evaluate(() =>
        [...document.querySelectorAll("*")].filter((e) => e.getBoundingClientRect().right > innerWidth).map((e) => e.outerHTML.slice(0, 120)),
      );
      wrong.push(`${name} scrolls sideways by ${over} on a phone: ${wide.slice(-3).join(" | ")}`);
    }
    if (folder) await page.screenshot({ path: join(folder, `${name}-phone.png`) });
    await page.setViewportSize(size);
  }

  try {
    await act({ logIn, check, outside, wrong });
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
}
