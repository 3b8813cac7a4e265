// Measures the pages over a seeded console: bench.mjs CHROMIUM LINK. It prints a line when something has to happen outside of the browser,
// and goes on when a line comes back.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
const { chromium } = createRequire(process.env.NODE_MODULES + "/")("playwright-core");

const [executablePath, link] = process.argv.slice(2);
const hub = new URL(link).origin;
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const outside = async (what) => {
  console.log(what);
  await lines.next();
};
const bench = (name, value, unit) => console.log(`BENCH web.${name} ${value.toFixed(unit === "ms" ? 0 : 1)} ${unit}`);
const p95 = (list) => list.toSorted((a, b) => a - b)[Math.floor(0.95 * (list.length - 1))];
const median = (list) => list.toSorted((a, b) => a - b)[Math.floor(list.length / 2)];

// Answers in a page for the API server of a cluster: each Deployment has two pods, and their logs have the lines of a whole, one after the other by time.
function pretendCluster(total) {
  const pods = 8;
  const asked = globalThis.fetch;
  const json = (value) => Promise.resolve(new Response(JSON.stringify(value), { headers: { "Content-Type": "application/json" } }));
  const begun = [];
  const log = (pod) => {
    if (!begun.includes(pod)) begun.push(pod);
    let next = begun.indexOf(pod);
    const encoder = new TextEncoder();
    return new ReadableStream({
      pull(controller) {
        globalThis.firstLine ??= performance.now();
        if (next >= total) return new Promise(() => {}); // it goes on without a word
        let text = "";
        for (const end = Math.min(total, next + pods * 200); next < end; next += pods)
          text += `${new Date(1.8e12 + next).toISOString()} line ${next} of a container that has something to say: GET /checkout 200 in 12 ms\n`;
        controller.enqueue(encoder.encode(text));
      },
    });
  };
  globalThis.fetch = (input, init) => {
    const { pathname, searchParams } = new URL(typeof input === "string" ? input : input.url, location.href);
    if (!pathname.startsWith("/clusters/")) return asked(input, init);
    const name = pathname.split("/").at(-1);
    if (/\/deployments\/[^/]+$/.test(pathname)) return json({ metadata: { name }, spec: { selector: { matchLabels: { app: name } } } });
    if (/\/log$/.test(pathname)) return Promise.resolve(new Response(log(pathname.split("/").at(-2))));
    const app = (searchParams.get("labelSelector") ?? "").replace("app=", "");
    return json({ items: ["a", "b"].map((pod) => ({ metadata: { name: `${app}-${pod}`, namespace: "shop" }, spec: { containers: [{ name: "app" }] } })) });
  };
}

const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu", "--enable-precise-memory-info"] }); // benches run as root, too
try {
  const context = await browser.newContext({ ignoreHTTPSErrors: true, viewport: { width: 1280, height: 800 } });
  const page = await context.newPage();
  page.setDefaultTimeout(120_000);
  await page.goto(link);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByRole("heading", { name: "Fleet", level: 1 }).waitFor();
  const state = await context.storageState();

  // Each load begins without anything of the one before, but for the session.
  const rows = [];
  for (let i = 0; i < 5; i++) {
    const cold = await browser.newContext({ ignoreHTTPSErrors: true, storageState: state });
    const first = await cold.newPage();
    const began = performance.now();
    await first.goto(`${hub}/services`, { waitUntil: "commit" });
    await first.locator("tbody td.name a").first().waitFor();
    rows.push(performance.now() - began);
    if (i === 0) {
      const bytes = await first.evaluate(() =>
        performance
          .getEntriesByType("resource")
          .filter((e) => /\.(js|css)$/.test(e.name))
          .reduce((sum, e) => sum + e.encodedBodySize, 0),
      );
      bench("first_load_kib", bytes / 1024, "KiB");
    }
    await cold.close();
  }
  bench("first_rows_ms", median(rows), "ms");

  await page.goto(`${hub}/services`);
  await page.locator("tbody td.name a").first().waitFor();
  const filters = [];
  for (const word of ["cart-0", "search-0", "worker-0", "api-0", "web-0"]) {
    await page.getByLabel("Filter").fill(word);
    const began = performance.now();
    await page.waitForFunction((word) => {
      const names = [...document.querySelectorAll("tbody td.name a")].map((a) => a.textContent);
      return names.length > 0 && names.every((n) => n.startsWith(word)) && !document.querySelector(".table-wrap.stale");
    }, word);
    filters.push(performance.now() - began);
  }
  bench("filter_ms", median(filters), "ms");

  await page.goto(`${hub}/services`);
  await page.locator("tbody td.name a").first().waitFor();
  const frames = await page.evaluate(
    () =>
      new Promise((done) => {
        const list = [];
        let before = performance.now();
        const step = (now) => {
          list.push(now - before);
          before = now;
          window.scrollBy(0, 60);
          if (list.length < 120) requestAnimationFrame(step);
          else done(list.slice(5));
        };
        requestAnimationFrame(step);
      }),
  );
  bench("scroll_p95_frame_ms", p95(frames), "ms");

  await page.goto(`${hub}/services`);
  await page.locator(".live-mark", { hasText: "live" }).waitFor();
  const seen = [];
  for (let i = 0; i < 20; i++) {
    const words = `change number ${i} of the bench`;
    const began = performance.now();
    const shown = page.getByText(words).first().waitFor();
    await outside(`break ${words}`);
    await shown;
    seen.push(performance.now() - began);
  }
  bench("change_to_pixel_ms", p95(seen), "ms");

  // From the list to the page of a cluster, whose view the hub has.
  const views = [];
  for (const cluster of ["edge-0001", "edge-0002", "edge-0003", "edge-0004", "edge-0005"]) {
    await page.goto(`${hub}/clusters`);
    await page.locator(".live-mark", { hasText: "live" }).waitFor();
    const row = page.getByRole("link", { name: cluster, exact: true });
    await row.waitFor();
    const began = performance.now();
    await row.click();
    await page.getByRole("region", { name: "Pods", exact: true }).waitFor();
    views.push(performance.now() - began);
  }
  bench("cluster_page_ms", median(views), "ms");

  const trees = [];
  for (let i = 0; i < 3; i++) {
    await page.goto(hub);
    await page.getByRole("heading", { name: "Fleet", level: 1 }).waitFor();
    const began = performance.now();
    await page.goto(`${hub}/service/storefront?tab=objects`, { waitUntil: "commit" });
    await page.locator("summary", { hasText: "ConfigMap" }).waitFor();
    trees.push(performance.now() - began);
  }
  bench("tree_1500_objects_ms", median(trees), "ms");

  // The merged logs of a service's eight containers, as fast as the page takes them. The cluster is made up in the tab: what is measured is the page, from
  // the first byte until each line is counted, none was dropped, and the last one is drawn.
  const total = 160_000;
  const rates = [];
  for (let i = 0; i < 3; i++) {
    const reader = await context.newPage();
    await reader.addInitScript(pretendCluster, total);
    await reader.goto(`${hub}/service/checkout?tab=logs`);
    await reader.getByText(`${total.toLocaleString("en-US")} of ${total.toLocaleString("en-US")} lines`).waitFor();
    await reader.getByText(`line ${total - 1} `).waitFor();
    rates.push(await reader.evaluate((total) => total / ((performance.now() - globalThis.firstLine) / 1000), total));
    await reader.close();
  }
  bench("log_lines_per_second", median(rates), "lines/s");

  await page.goto(`${hub}/services`);
  await page.locator(".live-mark", { hasText: "live" }).waitFor();
  const cdp = await context.newCDPSession(page);
  const heap = async () => {
    let least = Number.POSITIVE_INFINITY; // one collection leaves what only a later one may free
    for (let i = 0; i < 5; i++) {
      await cdp.send("HeapProfiler.collectGarbage");
      least = Math.min(least, (await cdp.send("Runtime.getHeapUsage")).usedSize);
      await page.waitForTimeout(500);
    }
    return least / (1 << 20);
  };
  await outside("busy 8m"); // what a page makes once is there then: each row has changed, and what often runs is compiled
  const before = await heap();
  await outside("busy 10m");
  const after = await heap();
  bench("heap_mib_services", after, "MiB");
  bench("heap_growth_mib_services", after - before, "MiB");
} finally {
  await browser.close();
  process.stdin.destroy(); // which would keep this process alive
}
