// What agents see in their clusters, over a seeded console: clusterviews.mjs CHROMIUM LINK CLUSTER WORST AWAY [FOLDER]. There is no cluster behind the
// console, so that a page that asks one fails.
import { act } from "./person.mjs";

const [executablePath, link, cluster, worst, away, folder] = process.argv.slice(2);
const hub = new URL(link).origin;

await act(executablePath, folder, async ({ logIn, check, outside, wrong }) => {
  const page = await logIn(link);
  const asked = [];
  page.on("request", (r) => {
    const path = new URL(r.url()).pathname;
    if (path.startsWith("/clusters/") || /ClusterViewService\/(?!GetViewCurves)/.test(path)) asked.push(path);
  });

  // The fleet: sums, and the cluster with the most trouble, which changes as agents push.
  const fleet = page.getByRole("region", { name: "In the clusters" });
  await fleet.getByRole("row", { name: /the fleet/ }).getByText("4 of 4,800").waitFor();
  await fleet.getByText(/not connected/).waitFor();
  await outside("fail");
  await fleet.getByRole("listitem").first().getByRole("link", { name: worst }).waitFor();
  await fleet.getByRole("row", { name: /the fleet/ }).getByText("10 of 4,800").waitFor();
  await page.getByRole("region", { name: "The last 24 hours" }).getByText(/Pods not ready \d+/).waitFor();
  await check(page, "fleet-views");
  await page.getByLabel("Group the clusters by a label").selectOption("region");
  await fleet.getByRole("row", { name: /^eu/ }).waitFor();

  // All clusters by any figure, in the address.
  await fleet.getByRole("link", { name: "All clusters by figures" }).click();
  await page.getByRole("row", { name: new RegExp(`^${worst}`) }).getByText("4 of 240").waitFor();
  await page.getByRole("columnheader", { name: "CPU requested" }).getByRole("button").click();
  await page.waitForURL(/sort=requests\.cpu\+desc/);
  await page.getByLabel("Filter").fill("pods.not_ready > 3");
  await page.getByText(cluster).waitFor({ state: "detached" });
  await page.getByRole("link", { name: worst }).waitFor();
  await check(page, "clusters-figures");
  const saved = page.waitForEvent("download");
  await page.getByRole("button", { name: "CSV" }).click();
  const rows = (await (await (await saved).createReadStream()).toArray()).join("").split("\r\n");
  if (!rows[0].startsWith("name,connected,") || !rows[0].includes("pods.not_ready") || !rows[1].startsWith(`${worst},true,`)) wrong.push(`CSV: ${rows.slice(0, 2)}`);

  // One cluster follows its agent.
  await page.goto(`${hub}/cluster/${cluster}`);
  const pods = page.getByRole("region", { name: "Pods" });
  await pods.getByRole("link", { name: "shop/broken-5f6d-abcde" }).waitFor();
  await pods.getByText("shop/<b>bold</b>").waitFor();
  await pods.getByText("14 restarts").first().waitFor();
  await page.getByRole("region", { name: "Warnings" }).getByText("41 times").waitFor();
  await page.getByRole("region", { name: "The last 24 hours" }).getByText(/Pods not ready \d+/).waitFor();
  await check(page, "cluster-view");
  const view = page.waitForEvent("download");
  await page.getByRole("region", { name: "In the cluster" }).getByRole("button", { name: "CSV" }).first().click();
  const seen = (await (await (await view).createReadStream()).toArray()).join("");
  if (!seen.includes("\r\npods,CrashLoopBackOff,Pod,shop,broken-5f6d-abcde,")) wrong.push(`CSV of a cluster: ${seen.slice(0, 400)}`);
  await page.locator(".live-mark", { hasText: "live" }).waitFor();
  asked.length = 0;
  await outside("recover");
  await pods.getByText("0 not ready").waitFor();
  await pods.getByRole("link", { name: "shop/broken-5f6d-abcde" }).waitFor({ state: "detached" });
  if (asked.length) wrong.push(`the page asked ${asked} for what the stream brings`);

  // A cluster that is away says how old its view is.
  await page.goto(`${hub}/cluster/${away}`);
  await page.getByText(/the cluster is away: as of 1\dm/).waitFor();
  await page.locator(".columns.away").getByText("CrashLoopBackOff").first().waitFor();
  await check(page, "cluster-away");
  if (asked.some((path) => path.startsWith("/clusters/"))) wrong.push(`a cluster was asked: ${asked}`);
});
