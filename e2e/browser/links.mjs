// A link that is copied from any state of any page opens that state for another person, over a seeded console: links.mjs CHROMIUM LINK OTHERS_LINK
// FAILING LARGE SOURCE CHARTS CLUSTER [FOLDER]. A person comes to each state by keys and clicks; the other one opens the address of it. Of pages that are
// one component with another kind or tab, one stands for all. There is no cluster and no gitcache behind the console: what pages ask of them is made up here.
import { act } from "./person.mjs";

const [executablePath, link, othersLink, failing, large, source, charts, cluster, folder] = process.argv.slice(2);

// What the address leaves to each person or browser, with the reason. Everything else that main shows has to be the same.
const apart = [
  ['nav[aria-label="Views"]', "saved views stay in the browser of the person who named them"],
  ["details.menu", "a menu that is open is about to be used and closes with the page"],
  ['.notice.bad[role="status"]', "how long ago the hub answered is of the tab that asked"],
  ["dialog", "what is typed into the dialog of an action is not sent yet"],
  [".pager button:first-child", "which page came before is known to the tab that showed it; otherwise the button leads to the first one"],
  ['section[aria-label="You"]', "the rights of the person who looks"],
  ['section[aria-label="The last 24 hours"]', "the step of now, which has no figures of clusters that are not heard of any more, begins between two looks"],
];

// Answers of gitcaches, as the wire has them.
const varint = (n) => (n < 128 ? [n] : [(n & 127) | 128, ...varint(n >> 7)]);
const field = (n, of) => (typeof of === "number" ? [n << 3, ...varint(of)] : ((b) => [(n << 3) | 2, ...varint(b.length), ...b])(typeof of === "string" ? Buffer.from(of) : of));
const revision = (i) => [...field(1, `${i}a`.repeat(20)), ...field(2, field(1, 1_790_000_000 - i * 3600)), ...field(3, `Change ${i}`), ...field(4, "ada")];
const entry = (kind, name) => [...field(1, kind), ...field(2, name), ...field(3, 120)];
const ofGitcaches = {
  ListTree: [...field(1, revision(1)), ...field(2, entry(1, "deploy")), ...field(2, entry(2, "values.yaml"))],
  ReadFile: [...field(1, revision(1)), ...field(2, entry(2, "values.yaml")), ...field(3, "replicas: 3\n")],
  ListCommits: [1, 2, 3].flatMap((i) => field(1, revision(i))).concat(field(2, "more")),
};
function answerAsGitcache(route) {
  const answer = ofGitcaches[new URL(route.request().url()).pathname.split("/").at(-1)];
  return answer ? route.fulfill({ contentType: "application/proto", body: Buffer.from(answer) }) : route.continue();
}

// Answers of a cluster: its kinds, and two pods, each on a page of its own.
const kinds = (resources) => ({ versions: [{ version: "v1", resources: resources.map(([resource, kind]) => ({ resource, responseKind: { kind }, scope: "Namespaced", verbs: ["list"] })) }] });
const podOf = (name) => ({ metadata: { name, namespace: "shop", uid: name, managedFields: [{ manager: "fairlead", operation: "Apply" }] }, spec: { containers: [{ name: "app" }] }, status: { phase: "Running" } });
function answerAsCluster(route) {
  const { pathname, searchParams } = new URL(route.request().url());
  const path = pathname.replace(/^\/clusters\/[^/]+/, "");
  if (path === "/api") return route.fulfill({ json: { items: [{ metadata: {}, ...kinds([["pods", "Pod"], ["configmaps", "ConfigMap"]]) }] } });
  if (path === "/apis") return route.fulfill({ json: { items: [{ metadata: { name: "apps" }, ...kinds([["deployments", "Deployment"]]) }] } });
  if (path === "/api/v1/namespaces") return route.fulfill({ json: { items: ["shop", "web"].map((name) => ({ metadata: { name } })) } });
  if (path.endsWith("/log")) return route.fulfill({ body: "2026-11-20T10:00:00.000000001Z listening\n2026-11-20T10:00:01.000000001Z ready\n" });
  if (/\/pods$/.test(path) && searchParams.has("includeObject")) {
    const later = searchParams.has("continue");
    const name = later ? "web-1" : "web-0";
    const metadata = { resourceVersion: "1", ...(later ? {} : { continue: "second" }) };
    return route.fulfill({ json: { columnDefinitions: [{ name: "Name", description: "", priority: 0 }], rows: [{ cells: [name], object: podOf(name) }], metadata } });
  }
  const [, name] = path.match(/\/pods\/([^/]+)$/) ?? [];
  if (name) return route.fulfill({ json: podOf(name) });
  return route.fulfill({ status: 404, json: { kind: "Status", code: 404, message: `${path} not found` } });
}

// In a page: what main shows, and how, once it asks for nothing and stays the same for a while, or is what was wanted. Ages and times run: each is a
// place for one.
async function looks([apart, wanted]) {
  const runs = (text) =>
    text
      .replace(/\b\d+[smhd](\d+[smh])?\b/g, "AGE")
      .replace(/\b\d+ (s|min|h|days) ago\b/g, "AGE ago")
      .replace(/\b\d{1,2}:\d\d(:\d\d)?( [AP]M)?\b/g, "TIME")
      .replace(/\b(less than )?[\d.]+ ms\b/g, "LONG")
      .replace(/\s+/g, " ");
  const look = () => {
    const main = document.querySelector("main");
    // Rows that are grey are of the question before, until the answer comes.
    if (!main?.querySelector("h1") || /\bAsking\b/.test(main.innerText) || main.querySelector(".stale")) return "";
    const left = apart.flatMap((css) => [...main.querySelectorAll(css)]);
    let text = runs(main.innerText);
    for (const e of left) text = text.replace(runs(e.innerText).trim(), "");
    const also = [];
    const tell = (e, what) => left.some((l) => l.contains(e)) || also.push(`${e.tagName.toLowerCase()} ${e.getAttribute("aria-label") || e.name || runs(e.innerText).slice(0, 60)}: ${what}`);
    for (const e of main.querySelectorAll("input, select, textarea")) tell(e, /checkbox|radio/.test(e.type) ? (e.checked ? "checked" : "not checked") : e.value);
    for (const e of main.querySelectorAll("details")) tell(e.querySelector("summary"), e.open ? "open" : "shut");
    for (const key of ["aria-sort", "aria-selected", "aria-current", "aria-pressed", "aria-expanded"])
      for (const e of main.querySelectorAll(`[${key}]`)) tell(e, `${key} ${e.getAttribute(key)}`);
    return [document.title, text, ...also].join("\n");
  };
  const long = wanted === undefined ? 150 : 2500;
  const end = performance.now() + 60_000;
  let now = "";
  for (let since = performance.now(); performance.now() < end; ) {
    await new Promise((idle) => requestIdleCallback(idle, { timeout: 5000 })); // what an address brings is drawn by then
    const next = look();
    if (next !== now || next === "") since = performance.now();
    now = next;
    if (now !== "" && (now === wanted || performance.now() - since >= long)) return now;
    await new Promise((done) => setTimeout(done, 60));
  }
  return now || "the page does not settle";
}

await act(executablePath, folder, async ({ logIn, wrong }) => {
  const page = await logIn(link);
  const first = await logIn(othersLink);
  const idle = [first, await first.context().newPage()];
  for (const p of [page, ...idle]) p.setDefaultTimeout(60_000);
  idle[1].on("pageerror", (e) => wrong.push(`script: ${e.message}`));
  // What the pages have asked for and not got yet. Streams and watches are answered as long as they are open.
  const flying = new Map([page, ...idle].map((p) => [p, new Set()]));
  for (const [p, asked] of flying) {
    p.on("request", (r) => /\/fairlead\.|\/clusters\//.test(r.url()) && !/\/Watch|[?&](watch=1|follow=true)/.test(r.url()) && asked.add(r));
    for (const over of ["requestfinished", "requestfailed"]) p.on(over, (r) => asked.delete(r));
  }
  async function look(p, wanted) {
    for (let end = Date.now() + 60_000; ; ) {
      const shown = await p.evaluate(looks, [apart.map(([css]) => css), wanted]);
      if (wanted !== undefined || flying.get(p).size === 0 || Date.now() > end) return shown;
    }
  }

  // The other person opens addresses, two at once, while the first one goes on.
  const waits = [];
  const running = [];
  const seen = new Map();
  async function opens(what, address, shown) {
    const p = idle.pop() ?? (await new Promise((done) => waits.push(done)));
    try {
      await p.goto(address);
      const theirs = await look(p, shown);
      if (theirs !== shown) {
        const from = Math.max(0, [...shown].findIndex((c, i) => c !== theirs[i]) - 60);
        wrong.push(`${what}: ${address.slice(new URL(address).origin.length)} shows another person\n  ${theirs.slice(from, from + 200)}\n  and not\n  ${shown.slice(from, from + 200)}`);
      }
    } catch (e) {
      wrong.push(`${what}: ${e.message.slice(0, 300)}`);
    } finally {
      const next = waits.shift();
      if (next) next(p);
      else idle.push(p);
    }
  }
  // A state that the first person comes to. Each has an address of its own.
  async function state(what, does) {
    try {
      await does?.();
    } catch (e) {
      wrong.push(`${what}, ${page.url()}: ${e.message.slice(0, 400)}`);
      return;
    }
    // Rows that stayed in place below the pointer take their order first, as for a person who comes anew.
    await page.evaluate(() => document.querySelectorAll("main .held button").forEach((b) => b.click()));
    const shown = await look(page);
    const address = page.url();
    if (seen.has(address) && seen.get(address) !== shown) wrong.push(`${what}: its address is that of another state: ${address}`);
    seen.set(address, shown);
    running.push(opens(what, address, shown));
  }
  const main = page.locator("main");
  const heading = (name) => page.getByRole("heading", { name, level: 1 }).waitFor();
  const rail = async (name) => {
    await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name, exact: true }).click();
    await heading(name);
  };
  const tab = async (name) => {
    await main.locator("nav.tabs").getByRole("link", { name, exact: true }).click();
    await main.locator('nav.tabs [aria-current="page"]', { hasText: name }).waitFor();
  };
  const types = async (text, url) => {
    await main.locator("[data-search]").first().waitFor();
    await page.keyboard.press("/");
    await page.keyboard.type(text);
    await page.waitForURL(url);
  };
  const column = async (name, order) => {
    await main.getByRole("columnheader", { name }).getByRole("button").click();
    await main.locator(`th[aria-sort="${order}"]`, { hasText: name }).waitFor();
  };
  const flips = (text) => main.locator("summary", { hasText: text }).first().click();
  const clicks = async (label, url) => {
    await page.getByLabel(label, { exact: true }).click();
    await page.waitForURL(url);
  };

  // The fleet.
  await state("the fleet by a label", () => page.getByLabel("Group the clusters by a label").selectOption("region"));
  await state("a counter of the fleet", async () => {
    await main.locator(".counters a").first().click();
    await heading("Services");
  });

  // Services.
  await rail("Services");
  await state("services by name", () => column("Name", "ascending"));
  await state("services by name, the last first", () => column("Name", "descending"));
  await state("columns of services", async () => {
    await flips("Columns");
    await clicks("Project", /cols=.*project/);
    await clicks("Levers", /cols=(?!.*levers)/);
    await flips("Columns");
  });
  await state("services, filtered", () => types("cluster : edge", /q=cluster/));
  await state("a later page of services", async () => {
    await page.getByRole("button", { name: "Next" }).click();
    await page.getByText("Page 2 of 2").waitFor();
  });
  await state("services that are chosen", async () => {
    await page.locator("body").press("j");
    await page.keyboard.press("x");
    await page.getByText("1 chosen:").waitFor();
    await page.keyboard.press("j");
    await page.keyboard.press("x");
    await page.getByText("2 chosen:").waitFor();
  });
  await state("a view of services", () => page.getByRole("link", { name: "Held", exact: true }).click());

  // A link counts, whatever the page that is left does until the next one is drawn.
  await rail("Services");
  await page.getByRole("link", { name: failing, exact: true }).waitFor();
  await page.evaluate((name) => {
    [...document.querySelectorAll("main a")].find((a) => a.innerText === name).click();
    document.querySelector("main th button").click();
  }, failing);
  await heading(failing);

  // A service.
  await rail("Services");
  await page.getByRole("link", { name: failing, exact: true }).click();
  await heading(failing);
  await state("a service");
  for (const name of ["Events", "Tests", "Config", "YAML", "Logs"]) await state(`${name} of a service`, () => tab(name));
  await state("the difference of a service", async () => {
    await tab("Diff");
    await page.getByText("This is what its agent found last").waitFor();
  });
  await state("a part of a difference that is shut", () => flips("ConfigMap shop/flags"));
  await state("a service's history", () => tab("History"));
  await rail("Services");
  await page.getByRole("link", { name: large, exact: true }).click();
  await heading(large);
  await state("a part of objects that is shut", async () => {
    await tab("Objects");
    await flips("Deployment");
  });
  await state("objects as a tree", () => page.getByLabel("Show as").selectOption("tree"));
  await state("objects that are searched and chosen", async () => {
    await page.getByLabel("Show as").selectOption("wave");
    await page.waitForURL(/as=wave/);
    await page.getByLabel("Find an object").fill("configmap");
    await page.waitForURL(/find=configmap/);
    await page.getByRole("checkbox", { name: /^Choose ConfigMap/ }).first().click();
    await page.waitForURL(/sel=/);
  });

  // Clusters.
  await rail("Clusters");
  await state("clusters", () => column("Last seen", "ascending"));
  await state("clusters, filtered", () => types("name : 001", /q=name/));
  await state("figures of clusters", async () => {
    await tab("Figures");
    await column("CPU requested", "descending");
  });
  await state("figures of clusters, the least first", () => column("CPU requested", "ascending"));
  await state("figures of clusters, filtered", () => types("nodes.total > 0", /q=nodes/));
  await rail("Clusters");
  await page.getByRole("link", { name: cluster, exact: true }).click();
  await heading(cluster);
  await state("a cluster");
  await state("a cluster that joins", async () => {
    await page.getByRole("link", { name: "a new command" }).click();
    await clicks("with kubectl and a file", /way=file/);
  });

  // Global services and configuration.
  await rail("Global services");
  await page.getByRole("link", { name: "node-exporter" }).click();
  await heading("node-exporter");
  await state("a global service");
  await rail("Configuration");
  await state("sets of configuration", () => tab("Sets"));
  await state("the services that use an entry", async () => {
    await page.getByRole("link", { name: "regions", exact: true }).click();
    await page.getByLabel("Entry").selectOption("endpoint");
    await page.waitForURL(/entry=endpoint/);
  });

  // Access.
  await rail("Access");
  await state("a question about access", async () => {
    await page.getByLabel("Who", { exact: true }).fill("user:bob");
    await page.getByLabel("In groups").fill("web-team, shop");
    await page.getByLabel("Does").selectOption("exec");
    await page.getByLabel("On a").selectOption("Kubernetes API");
    await page.getByLabel("In cluster").fill(cluster);
    await page.getByRole("button", { name: "Ask", exact: true }).click();
    await main.locator('p[role="status"]').waitFor();
  });
  await state("projects", () => tab("Projects"));
  await state("tokens of somebody", async () => {
    await tab("Tokens");
    await page.getByLabel("Whose tokens").fill("user:ada");
    await page.keyboard.press("Enter");
    await page.waitForURL(/subject=user/);
  });
  await state("requests for access", async () => {
    await tab("Requests");
    await flips("Ask for access to a cluster");
    await page.waitForURL(/open=ask/);
    await clicks("also those that are over", /all=1/);
  });
  await state("recordings of somebody", async () => {
    await tab("Recordings");
    await page.getByLabel("Whose").fill("ada");
    await page.getByLabel("Cluster").fill(cluster);
    await page.getByRole("button", { name: "Filter" }).click();
    await page.waitForURL(/cluster=/);
  });
  await tab("Grants");
  await page.getByRole("link", { name: "web-team", exact: true }).click();
  await state("a change of a grant", async () => {
    await main.getByRole("region", { name: "Changes in the catalog" }).locator("summary").first().click();
    await main.locator("details[open] .cm-content").waitFor();
  });

  // Activity.
  await rail("Activity");
  await state("events, filtered", () => types("severity >= WARNING", /q=severity/));
  await state("the audit trail of somebody", async () => {
    await tab("Audit");
    await page.getByLabel("Who", { exact: true }).fill("ada");
    await page.getByLabel("What", { exact: true }).fill("catalog.create");
    await page.getByLabel("Since").selectOption("24");
    await page.getByRole("button", { name: "Filter" }).click();
    await page.waitForURL(/hours=24/);
    await main.getByText("catalog.create").first().waitFor();
    await main.getByText("session.begin").first().waitFor({ state: "detached" });
  });
  await state("what somebody changed", () => flips("before and after"));

  // The hub, and the editor.
  await rail("Hub");
  await state("the hub");
  for (const name of ["Gitcaches", "Tunnels"]) await state(`the hub, ${name}`, () => tab(name));
  await state("the editor of a service", async () => {
    await rail("Services");
    await page.getByRole("link", { name: failing, exact: true }).click();
    await tab("YAML");
    await page.getByRole("link", { name: "Edit" }).click();
    await page.getByLabel("YAML").getByText("apiVersion").first().waitFor();
  });
  await state("the editor of a new grant", async () => {
    await rail("Access");
    await tab("Grants");
    await page.getByRole("link", { name: "New" }).click();
    await page.getByLabel("YAML").getByText("apiVersion").first().waitFor();
  });

  // What is in a cluster, and in sources: others than the console are asked. They are made up from here on only, since a browser whose requests are looked
  // at keeps no scripts.
  await Promise.all(running);
  for (const c of [page.context(), first.context()]) {
    await c.route("**/fairlead.gitcache.v1.SourceService/*", answerAsGitcache);
    await c.route("**/clusters/edge-*/**", answerAsCluster);
  }
  await rail("Clusters");
  await page.getByRole("link", { name: cluster, exact: true }).click();
  await heading(cluster);
  await page.getByRole("link", { name: "Pods", exact: true }).click();
  await page.getByRole("link", { name: "web-0" }).waitFor();
  await state("a kind that is searched", async () => {
    await page.getByLabel("Find a kind").fill("dep");
    await page.getByRole("navigation", { name: "Kinds" }).getByRole("link", { name: "Pod", exact: true }).waitFor({ state: "detached" });
  });
  await page.getByLabel("Find a kind").fill("");
  await page.waitForURL((url) => !url.searchParams.has("kinds"));
  await state("pods of a namespace", async () => {
    await page.getByLabel("Namespace").fill("shop");
    await page.waitForURL(/ns=shop/);
  });
  await state("a later page of pods", async () => {
    await page.getByRole("button", { name: "Next" }).click();
    await page.getByRole("link", { name: "web-1" }).waitFor();
  });
  await state("a pod", () => page.getByRole("link", { name: "web-1" }).click());
  await state("the managers of a pod's fields", async () => {
    await tab("YAML");
    await flips("managers of fields");
  });
  await state("a log that is searched", async () => {
    await tab("Logs");
    await page.getByLabel("Find in the log").fill("ready");
    await page.waitForURL(/grep=ready/);
    await page.getByLabel("Since").selectOption("3600");
    await page.waitForURL(/since=3600/);
    // Faster than a page is drawn: none of the two takes the other one back.
    await page.evaluate(() => ["wrap", "times"].forEach((label) => [...document.querySelectorAll("label")].find((l) => l.innerText.trim() === label).click()));
    await page.waitForURL(/grep=ready&since=3600&wrap=1&times=0/);
    await page.getByText("2 of 3 lines").waitFor(); // the answers that are made up end: the log says once that it was resumed
  });

  // Sources.
  await rail("Sources");
  await state("sources", () => column("Repository", "ascending"));
  await state("sources, filtered", () => types("shop", /q=shop/));
  await page.getByRole("link", { name: source, exact: true }).click();
  await heading(source);
  await state("a source");
  await state("commits", async () => {
    await tab("Commits");
    await page.getByText("Change 3").waitFor();
  });
  await state("a later page of commits", async () => {
    await page.getByRole("button", { name: "Next" }).click();
    await page.getByText("Page 2").waitFor();
  });
  await state("files of a revision", async () => {
    await tab("Files");
    await page.getByLabel("Revision").fill("v1.2");
    await page.keyboard.press("Enter");
    await page.waitForURL(/rev=v1.2/);
  });
  await state("a file", async () => {
    await page.getByRole("link", { name: "deploy/" }).click();
    await page.getByRole("link", { name: "values.yaml" }).click();
    await page.getByText("replicas: 3").waitFor();
  });
  await state("what changed of a source", async () => {
    await tab("YAML");
    await page.getByRole("region", { name: "Changes in the catalog" }).waitFor();
  });
  await rail("Sources");
  await page.getByRole("link", { name: charts, exact: true }).click();
  await heading(charts);
  await state("values of a chart", async () => {
    await tab("Values");
    await page.getByLabel("Chart", { exact: true }).fill("redis");
    await page.getByLabel("Version or range").fill("^19.1");
    await page.getByRole("button", { name: "Show", exact: true }).click();
    await page.waitForURL(/chart=redis/);
  });
  await Promise.all(running);
});
