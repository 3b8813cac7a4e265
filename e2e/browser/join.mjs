// A cluster behind NAT joins by one command, and the page turns green by itself: join.mjs CHROMIUM LINK CLUSTER FILE [FOLDER]. FILE gets what the page
// has a person download.
import { act } from "./person.mjs";

const [executablePath, link, cluster, file, folder] = process.argv.slice(2);
const hub = new URL(link).origin;

await act(executablePath, folder, async ({ logIn, check, outside, wrong }) => {
  const page = await logIn(link);
  await page.goto(`${hub}/clusters`);
  await page.getByRole("link", { name: "Join a cluster" }).click();
  await page.getByLabel("Name of the cluster").fill(cluster);
  await page.getByRole("button", { name: "Go on" }).click();
  await page.getByRole("heading", { name: `Join ${cluster}` }).waitFor();
  await page.getByText(`fairlead cluster join ${cluster} --context ${cluster}`).waitFor();
  const steps = page.getByRole("region", { name: "Steps" });
  await steps.getByText("waits").nth(2).waitFor();
  await page.getByLabel("with kubectl and a file").check(); // at once, though the address follows a moment later
  await page.waitForURL(/way=file/);
  const saved = page.waitForEvent("download");
  await page.getByRole("button", { name: "Download the file" }).click();
  await (await saved).saveAs(file);
  await page.getByText(`apply --server-side -f ${cluster}-agent.yaml`).waitFor();
  await check(page, "join-waits");
  if (/fairlead-join-/.test(page.url() + (await page.innerText("body")))) wrong.push("the page shows the join token");

  await outside("join");
  // No reload: the stream of the page brings it.
  await steps.getByText("done").nth(2).waitFor();
  await check(page, "join-done");
  await page.getByRole("link", { name: `Open ${cluster}` }).click();
  await page.getByText("there and back").waitFor();
  await page.goBack();
  await steps.getByText("no service is meant for this cluster yet").waitFor();
  await outside("ship");
  await steps.getByText("It has applied a first service").waitFor();
  await steps.getByText("done").nth(3).waitFor();
  await page.getByRole("link", { name: `Open ${cluster}` }).click();
  await page.getByRole("link", { name: "All services of this cluster" }).click();
  await page.getByRole("link", { name: cluster, exact: true }).first().click();
  await page.getByRole("heading", { name: `${cluster} healthy` }).waitFor();
  await page.getByRole("region", { name: "Last delivery" }).getByText("healthy").waitFor();
});
