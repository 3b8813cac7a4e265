// Undoes levers, looks at what the cluster made of a service's objects and at what a draft would be configured with, and goes to things by name:
// levers.mjs CHROMIUM LINK SERVICE OTHER CLUSTER [FOLDER]. SERVICE and OTHER are of the same folder.
import { act, type, typed } from "./person.mjs";

const [executablePath, link, service, other, cluster, folder] = process.argv.slice(2);
const hub = new URL(link).origin;

await act(executablePath, folder, async ({ logIn, check, outside, wrong }) => {
  const page = await logIn(link);
  const dialog = page.locator("dialog[open]");
  const tray = page.getByRole("region", { name: "What you did" });
  const did = (what) => tray.getByRole("listitem").filter({ hasText: what });
  const pull = async (verb, reason, choice) => {
    await page.getByRole("button", { name: verb, exact: true }).click();
    if (choice) await dialog.getByLabel(choice).check();
    if (reason) await dialog.getByLabel("Reason").fill(reason);
    await dialog.getByRole("button", { name: verb, exact: true }).click();
    await dialog.waitFor({ state: "detached" });
  };

  // A hold is undone from another page.
  await page.goto(`${hub}/service/${service}`);
  await pull("Hold", "looks <b>odd</b>");
  await page.getByText("looks <b>odd</b>").first().waitFor();
  await did(`Hold ${service}: taken in`).waitFor();
  await check(page, "undo");
  await page.getByRole("link", { name: "Services", exact: true }).first().click();
  await page.getByRole("heading", { name: "Services" }).waitFor();
  await did(`Hold ${service}`).getByRole("button", { name: "Undo" }).click();
  await did(`Hold ${service}: undone`).waitFor();
  if (await tray.getByRole("button", { name: "Undo" }).count()) wrong.push("what is undone can be undone once more");
  await tray.getByRole("button", { name: "Close" }).click();
  await tray.waitFor({ state: "detached" });

  // A resume is undone: the service is suspended again, for the same reason.
  await page.goto(`${hub}/service/${service}`);
  await page.getByRole("button", { name: "Hold", exact: true }).waitFor();
  await pull("Hold", "a <i>long</i> look", "Suspend: the agent only looks");
  await page.getByText("Suspended").first().waitFor();
  await pull("Resume");
  await page.getByText("a <i>long</i> look").first().waitFor({ state: "detached" });
  await did(`Resume ${service}`).getByRole("button", { name: "Undo" }).click();
  await page.getByText("a <i>long</i> look").first().waitFor();
  await page.getByText("Suspended").first().waitFor();
  await pull("Resume");
  await page.getByRole("button", { name: "Hold", exact: true }).waitFor();

  // A pin, and an unpin: what is back is the same commit.
  await pull("Pin", "stays here", "Until somebody unpins it"); // other tests push to the repository
  await page.getByText("stays here").first().waitFor();
  await pull("Unpin");
  await page.getByText("Pinned to").waitFor({ state: "detached" });
  await did(`Unpin ${service}`).getByRole("button", { name: "Undo" }).click();
  await page.getByText("stays here").first().waitFor();
  await did(`Pin ${service}: taken in`).last().getByRole("button", { name: "Undo" }).click();
  await page.getByText("Pinned to").waitFor({ state: "detached" });
  await tray.getByRole("button", { name: "Close" }).click();

  // Several at once, and all of them back.
  await page.goto(`${hub}/services?q=${encodeURIComponent(`name : ${service.slice(0, 5)}`)}`);
  const held = (name) => page.getByRole("row", { name: new RegExp(name) }).getByText("held").first();
  await page.getByRole("link", { name: other, exact: true }).waitFor();
  await page.getByLabel("Choose all on this page").check();
  await page.getByRole("button", { name: "Hold", exact: true }).first().click();
  await dialog.getByLabel("Reason").fill("both of them");
  await dialog.getByRole("button", { name: "Hold", exact: true }).click();
  await dialog.getByText("The hub has taken in 2.").waitFor();
  await dialog.getByRole("button", { name: "Close" }).click();
  for (const name of [service, other]) await held(name).waitFor();
  await check(page, "undo-several");
  await did("Hold 2 services: taken in").getByRole("button", { name: "Undo" }).click();
  await did("Hold 2 services: undone").waitFor();
  for (const name of [service, other]) await held(name).waitFor({ state: "detached" });
  await tray.getByRole("button", { name: "Close" }).click();

  // What a sync would change, asked of the cluster now; and what a rollback would, before it is done.
  await page.goto(`${hub}/service/${service}?tab=diff`);
  await page.getByText(/0 removed, 0 changed, 0 created, \d+ the same; found \d+s ago/).waitFor();
  await check(page, "diff-now");
  await outside("push");
  await page.goto(`${hub}/service/${service}?tab=history`);
  await page.getByRole("row", { name: /second/ }).getByText("healthy", { exact: true }).waitFor();
  await page.getByRole("row", { name: /first/ }).last().getByRole("button", { name: "Roll back" }).click();
  await dialog.getByText(/The cluster goes from [0-9a-f]{7} to [0-9a-f]{7}/).waitFor();
  await dialog.getByText("What would change").click();
  const there = dialog.getByRole("region", { name: "In the cluster" });
  await there.getByText(/2 changed/).waitFor();
  await there.locator("del", { hasText: "second" }).first().waitFor();
  await there.locator("ins", { hasText: "first" }).first().waitFor();
  await check(page, "rollback-preview");
  await dialog.getByRole("button", { name: "Cancel" }).click();
  await page.getByRole("region", { name: "Changes in the catalog" }).getByText("resumed by").first().waitFor();

  // What the cluster made of a Deployment.
  await page.goto(`${hub}/service/${service}`);
  await page.getByRole("link", { name: "Objects" }).click();
  await page.getByLabel("Show as").selectOption("tree");
  const made = page.getByRole("listitem").filter({ hasText: "ReplicaSet" });
  await made.getByRole("link", { name: /^web-/ }).first().waitFor();
  await page.getByRole("listitem").filter({ hasText: /^.*Pod web-/ }).first().waitFor();
  await check(page, "objects-tree");

  // A draft's configuration, and what a text would change, line by line.
  await page.goto(`${hub}/apply?kind=Service&name=${service}`);
  const text = await typed(page);
  await type(page, `${text.trimEnd()}\n  config:\n    COLOUR: {text: blue}\n`);
  await check(page, "edit");
  await page.getByRole("button", { name: "Show what changes" }).click();
  const changes = page.getByRole("status", { name: "What changes" }).or(page.getByRole("region", { name: "What changes" })).first();
  await changes.locator(".cm-added").filter({ hasText: "COLOUR" }).waitFor();
  await changes.getByText("Its configuration, and where each value would come from").click();
  await changes.getByRole("row", { name: /COLOUR.*blue/ }).waitFor();
  await check(page, "edit-draft");

  // By a part of its name, and by its words.
  await page.keyboard.press("Control+k");
  const name = page.getByLabel("Name of a page or a thing");
  await name.fill(service.slice(0, 5));
  await page.getByRole("option", { name: `${other} service` }).waitFor();
  await page.getByRole("option", { name: `${service} service` }).waitFor();
  await check(page, "go-to");
  await name.fill(other);
  await page.waitForFunction((other) => document.querySelector("[role=option][aria-selected=true]")?.textContent?.startsWith(`${other} service`), other);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: other, level: 1 }).waitFor();
  await page.keyboard.press("Control+k");
  await name.fill("no-such-thing-anywhere");
  await page.getByText("Nothing that you may see fits").waitFor();
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });

  // A kind of the cluster that is open.
  await page.goto(`${hub}/cluster/${cluster}`);
  await page.getByRole("heading", { name: cluster, level: 1 }).waitFor();
  await page.keyboard.press("Control+k");
  await name.fill("deployments");
  await page.getByRole("option", { name: `deployments kind of apps in ${cluster}` }).waitFor();
  await page.keyboard.press("Enter");
  await page.waitForURL(new RegExp(`/cluster/${cluster}/explore/apps/v1/deployments`));

  // A service is deleted without its objects, which stay in the cluster; and comes back.
  await page.goto(`${hub}/service/${service}?tab=yaml`);
  await page.getByRole("button", { name: "Delete", exact: true }).click();
  await dialog.getByText(/loses \d+ objects:/).waitFor();
  await dialog.getByLabel("Leave its objects in the cluster").check();
  await dialog.getByText(/keeps \d+ objects, without the mark of the service/).waitFor();
  await check(page, "delete-detach");
  await dialog.getByRole("button", { name: "Delete", exact: true }).click();
  await page.waitForURL(`${hub}/services`);
  const gone = page.getByRole("region", { name: "Deleted in the last hour" });
  await gone.getByRole("link", { name: service, exact: true }).click();
  await outside("detached");
  await page.getByRole("region", { name: "Deleted" }).getByRole("button", { name: "Bring it back" }).click();
  await page.getByRole("heading", { name: `${service} healthy` }).waitFor();
});
