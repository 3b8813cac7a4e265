// Works through a list of services with the keyboard, syncs single objects, saves what is shown, and looks at a chart's newer
// version: worklist.mjs CHROMIUM LINK SERVICE CHARTS [FOLDER]. There is no gitcache behind the console.
import { act } from "./person.mjs";

const [executablePath, link, service, charts, folder] = process.argv.slice(2);
const hub = new URL(link).origin;

await act(executablePath, folder, async ({ logIn, check, wrong }) => {
  const page = await logIn(link);

  // What is saved is what is shown.
  await page.goto(`${hub}/services?q=${encodeURIComponent("state = failed")}&sort=name`);
  const names = page.locator("tbody td.name a");
  await names.first().waitFor();
  for (const [button, begins] of [["CSV", "name,"], ["YAML", "rows:"]]) {
    const saved = page.waitForEvent("download");
    await page.getByRole("button", { name: button, exact: true }).click();
    const text = (await (await (await saved).createReadStream()).toArray()).join("");
    if (!text.startsWith(begins)) wrong.push(`${button} begins with ${text.slice(0, 40)}`);
    for (const name of await names.allTextContents()) if (!text.includes(name)) wrong.push(`${button} lacks ${name}`);
  }

  // On a phone numbers say what they are.
  await page.setViewportSize({ width: 390, height: 844 });
  await page.locator("td[data-label=Since]").first().waitFor();
  await page.setViewportSize({ width: 1280, height: 800 });

  // J and K go through the list without a way back to it.
  const list = await names.allTextContents();
  await page.getByRole("link", { name: list[0], exact: true }).click();
  await page.getByRole("heading", { name: list[0], level: 1 }).waitFor();
  await page.keyboard.press("J");
  await page.getByRole("heading", { name: list[1], level: 1 }).waitFor();
  await page.keyboard.press("K");
  await page.getByRole("heading", { name: list[0], level: 1 }).waitFor();
  await page.getByRole("button", { name: "Sync" }).waitFor();
  await page.keyboard.press("o");
  await page.waitForFunction(() => document.activeElement?.textContent === "Sync");

  // An action by its name: it asks, and a link in it leads to what it would do.
  await page.keyboard.press("Control+k");
  await page.getByLabel("Name of a page or a thing").fill("sync");
  await page.getByRole("option", { name: "Sync on this page" }).waitFor();
  await page.keyboard.press("Enter");
  await page.locator("dialog[open]").getByRole("link", { name: "What would change" }).click();
  await page.waitForURL(/tab=diff/);
  await page.locator("dialog[open]").waitFor({ state: "detached" });

  // Of those that a text fits as well, the worse come first.
  await page.keyboard.press("Control+k");
  await page.getByLabel("Name of a page or a thing").fill("web");
  const found = page.getByRole("option", { name: /^web-/ });
  await found.first().waitFor();
  const words = ["failed", "degraded", "unknown", "progressing", "healthy"];
  const states = (await found.allTextContents()).map((text) => words.findIndex((w) => text.endsWith(w))).filter((i) => i >= 0);
  if (new Set(states).size < 2) wrong.push(`all that is found is alike: ${states}`);
  if (states.some((s, i) => s < states[i - 1])) wrong.push(`what is worse comes later: ${await found.allTextContents()}`);
  await page.keyboard.press("Escape");

  // A version that the range of services keeps out, and its values.
  await page.goto(`${hub}/source/${charts}`);
  const kept = page.getByRole("row", { name: /redis \^19\.1/ });
  await kept.getByText("20.1.0").waitFor();
  await check(page, "source-newer");
  await kept.getByRole("link", { name: "its values" }).click();
  const shown = async (chart, version) => {
    const has = [await page.getByLabel("Chart", { exact: true }).inputValue(), await page.getByLabel("Version or range").inputValue()];
    if (`${has}` !== `${[chart, version]}`) wrong.push(`the values of ${has} are shown, not those of ${[chart, version]}`);
  };
  await page.waitForURL(/tab=values/);
  await shown("redis", "20.1.0");
  const read = page.waitForRequest((r) => r.url().endsWith("/ReadFile"));
  await page.getByLabel("Version or range").fill("");
  await page.getByRole("button", { name: "Show", exact: true }).click();
  const sent = (await read).postDataBuffer().toString("latin1");
  if (!sent.includes("chart:redis@") || sent.includes("20.1.0")) wrong.push("the values of another version are read");
  await page.waitForURL(/version=$/);
  await shown("redis", "");
  await check(page, "source-values");

  // Some objects are synced, by name.
  await page.goto(`${hub}/service/${service}?tab=objects`);
  const box = page.getByRole("checkbox", { name: /^Choose Deployment\/shop\// }).first();
  await box.check();
  const chosen = (await box.getAttribute("aria-label")).replace("Choose ", "");
  await page.getByText("1 object is chosen").waitFor();
  await check(page, "objects-chosen");
  await page.getByRole("button", { name: "Sync these" }).click();
  const dialog = page.locator("dialog[open]");
  await dialog.getByRole("heading", { name: chosen }).waitFor();
  const asked = page.waitForRequest((r) => r.url().endsWith("/RequestSync"));
  await dialog.getByRole("button", { name: "Sync these" }).click();
  if (!(await asked).postDataBuffer().toString("latin1").includes(chosen)) wrong.push("the sync does not name the object");
  await page.getByText("The hub has taken it in.").waitFor();

  // What goes with a deletion is said before, and a large one wants the name; what others name stays; what went comes back.
  await page.goto(`${hub}/service/${service}?tab=yaml`);
  await page.getByRole("button", { name: "Delete", exact: true }).click();
  const sure = dialog.getByRole("button", { name: "Delete", exact: true });
  await dialog.getByText(/Cluster edge-\d+ loses 1\d objects:/).waitFor();
  if (await sure.isEnabled()) wrong.push("a service with many objects is deleted without its name");
  await check(page, "delete-service");
  await dialog.getByRole("textbox").fill(service);
  if (!(await sure.isEnabled())) wrong.push("a service is not deleted with its name");
  await dialog.getByRole("button", { name: "Cancel" }).click();
  await page.goto(`${hub}/configset/regions`);
  await page.getByRole("button", { name: "Delete", exact: true }).click();
  await sure.click();
  await dialog.getByRole("alert").waitFor();
  await dialog.getByRole("button", { name: "Cancel" }).click();
  await page.goto(`${hub}/grant/web-team`);
  await page.getByRole("button", { name: "Delete", exact: true }).click();
  await sure.click();
  await page.waitForURL(/access\?tab=grants/);
  const tray = page.getByRole("region", { name: "What you did" });
  await page.getByRole("link", { name: "web-team", exact: true }).waitFor({ state: "detached" });
  await tray.getByRole("button", { name: "Undo" }).click();
  await tray.getByText("Delete grant web-team: undone").waitFor();
  await page.getByRole("link", { name: "web-team", exact: true }).waitFor();
  await page.goto(`${hub}/access?tab=roles`);
  await page.getByRole("link", { name: "operator", exact: true }).waitFor();
});
