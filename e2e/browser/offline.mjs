// The Git host is away: nothing stops, and the pages say what is served from cache, since when: offline.mjs CHROMIUM LINK SOURCE [FOLDER].
// The service has the name of its source.
import { act } from "./person.mjs";

const [executablePath, link, source, folder] = process.argv.slice(2);
const hub = new URL(link).origin;

await act(executablePath, folder, async ({ logIn, check, outside }) => {
  const page = await logIn(link);
  await page.goto(`${hub}/source/${source}`);
  await page.getByRole("heading", { name: `${source} ready` }).waitFor();
  await outside("away");
  await page.getByRole("button", { name: "Refresh" }).click();
  await page.getByRole("heading", { name: `${source} failing` }).waitFor();
  await page.getByText(/503.* Since .*the last good commits are served from cache/).waitFor();
  await page.getByRole("region", { name: "Polls" }).getByText("Served from cache").waitFor();
  await check(page, "offline-source");
  await page.goto(hub);
  await page.getByRole("link", { name: source, exact: true }).first().waitFor();
  await page.goto(`${hub}/sources?q=${source}`);
  await page.getByText(/503.* Since .*; the last good commits are served\./).waitFor();
  await check(page, "offline-sources");

  // What was fetched is still shown, still delivered, and repaired.
  await page.goto(`${hub}/source/${source}?tab=files`);
  await page.getByRole("link", { name: "marker.yaml" }).click();
  await page.getByText("kept while Git is away").waitFor();
  await page.goto(`${hub}/service/${source}`);
  await page.getByRole("heading", { name: `${source} healthy` }).waitFor();
  await outside("drift");
  await page.getByRole("button", { name: "Sync" }).click();
  await page.locator("dialog[open]").getByRole("button", { name: "Sync" }).click();
  await outside("repaired");
  await page.getByRole("heading", { name: `${source} healthy` }).waitFor();
  await check(page, "offline-service");

  await outside("back");
  await page.goto(`${hub}/source/${source}`);
  await page.getByRole("button", { name: "Refresh" }).click();
  await page.getByRole("heading", { name: `${source} ready` }).waitFor();
});
