// Changes several clusters with care, and goes back: fleet.mjs CHROMIUM LINK NAME FIRST SECOND [FOLDER]. FIRST and SECOND are clusters.
import { act, type } from "./person.mjs";

const [executablePath, link, name, first, second, folder] = process.argv.slice(2);
const hub = new URL(link).origin;
const clusters = [first, second].toSorted();

await act(executablePath, folder, async ({ logIn, check, outside }) => {
  const page = await logIn(link);
  const write = async (text) => {
    await type(page, text);
    await page.getByRole("button", { name: "Show what changes" }).click();
    await page.getByRole("region", { name: "What changes" }).or(page.getByRole("status", { name: "What changes" })).first().waitFor();
  };
  const global = (version, extra = "") => `apiVersion: fairlead.dev/v1
kind: GlobalService
metadata: {name: ${name}}
spec:
  clusters: {names: [${clusters.join(", ")}]}
  template: {source: sample, path: ${name}/${version}, namespace: ${name}}
${extra}`;

  // Before anything is written, the page says what would happen on each cluster.
  await page.goto(`${hub}/apply?kind=GlobalService`);
  await write(global("v1"));
  await page.getByText("What would change").waitFor();
  const there = page.getByRole("region", { name: "On the clusters" });
  await there.getByText("Fits 2 clusters: 2 created").waitFor();
  for (const cluster of clusters) await there.getByText(cluster, { exact: true }).waitFor();
  await check(page, "fleet-new");
  await page.getByRole("button", { name: "Apply" }).click();
  await page.getByText("Written").waitFor();
  await page.getByRole("link", { name, exact: true }).click();
  await page.getByRole("heading", { name, level: 1 }).waitFor();
  await page.getByText("2 the same").waitFor();
  await outside("runs v1 v1");

  // One cluster first; the others stay.
  await page.getByRole("link", { name: "Edit" }).click();
  await write(global("v1", `  overrides:\n    - {clusters: {names: [${first}]}, path: ${name}/v2}\n`));
  await page.getByText(`${name}/v2`).first().waitFor();
  await there.getByText("Fits 2 clusters: 0 created, 1 changed, 0 deleted, 0 detached, 1 the same").waitFor();
  await there.getByRole("listitem").filter({ hasText: first }).getByText("what changes").click();
  await there.getByText(`path: ${name}/v2`).first().waitFor();
  await check(page, "fleet-edit");
  await page.getByRole("button", { name: "Apply" }).click();
  await page.getByText("Written").waitFor();
  await outside("runs v2 v1");
  await page.goto(`${hub}/globalservice/${name}`);
  await page.getByText("2 the same").waitFor();
  await check(page, "fleet-global");

  // The next version is broken: it stops at the first cluster, keeps what is applied there, and says why.
  await page.getByRole("link", { name: "Edit" }).click();
  await write(global("v1", `  overrides:\n    - {clusters: {names: [${first}]}, path: ${name}/broken}\n`));
  await page.getByRole("button", { name: "Apply" }).click();
  await page.getByText("Written").waitFor();
  await page.goto(`${hub}/services?q=${encodeURIComponent(`name : ${name} AND state = failed`)}`);
  const failed = page.getByRole("row", { name: new RegExp(name) });
  await failed.getByText("broken.yaml").waitFor();
  await check(page, "fleet-failed");
  await outside("runs v2 v1");

  // Back to what was.
  await page.goto(`${hub}/apply?kind=GlobalService&name=${name}`);
  await page.getByLabel("YAML").waitFor();
  await write(global("v1"));
  await page.getByRole("button", { name: "Apply" }).click();
  await page.getByText("Written").waitFor();
  await outside("runs v1 v1");
  await page.goto(`${hub}/services?q=${encodeURIComponent(`name : ${name} AND state = healthy`)}`);
  await page.getByRole("link", { name: new RegExp(name) }).nth(1).waitFor();
});
