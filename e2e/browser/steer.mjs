// Looks into a source, freezes and unfreezes, lends access and replays a shell, as two people do:
// steer.mjs CHROMIUM LINK OTHERS_LINK SERVICE CLUSTER [FOLDER].
import { act } from "./person.mjs";

const [executablePath, link, othersLink, service, cluster, folder] = process.argv.slice(2);
const hub = new URL(link).origin;

await act(executablePath, folder, async ({ logIn, check, outside, wrong }) => {
  const page = await logIn(link);
  const dialog = page.locator("dialog[open]");

  // Commits and files of a source; a link to them opens the same for somebody else.
  await page.goto(`${hub}/source/sample`);
  await page.getByText("in the last hour").waitFor();
  await page.getByRole("button", { name: "Refresh" }).click();
  await page.getByText("The owner polls now.").waitFor();
  await check(page, "source");
  await page.getByRole("link", { name: "Commits", exact: true }).click();
  await page.getByText("first <b>commit</b>").waitFor();
  await check(page, "source-commits");
  await page.getByRole("row", { name: /first <b>commit<\/b>/ }).getByRole("link", { name: "Files" }).click();
  await page.getByRole("link", { name: "steered/" }).click();
  await page.getByRole("link", { name: "hostile.txt" }).click();
  await page.getByText("<img src=x onerror=window.stolen=1>\\u{1b}[31m\\u{202e}").waitFor();
  await check(page, "source-file");
  const copied = page.url();
  await page.getByRole("link", { name: "steered", exact: true }).click();
  await page.getByRole("link", { name: "binary.bin" }).click();
  await page.getByText("It is no text.").waitFor();
  await page.goto(`${hub}/source/sample?tab=files&rev=no-such-branch`);
  await page.getByRole("alert").getByText("no-such-branch").waitFor();
  await page.goto(`${hub}/source/no-such-source?tab=files`);
  await page.getByRole("alert").getByText("no-such-source").first().waitFor();

  // Frozen by a person with a reason: the service says so, and a sync has to be let over it.
  await page.goto(`${hub}/project/steered`);
  await page.getByText("nobody is on call").first().waitFor();
  await page.getByRole("button", { name: "Freeze" }).click();
  await dialog.getByLabel("Reason").fill("the <i>sale</i>");
  await dialog.getByRole("button", { name: "Freeze" }).click();
  await page.getByText("the <i>sale</i>").first().waitFor();
  await check(page, "project");
  await page.goto(`${hub}/service/${service}`);
  await page.getByRole("region", { name: "Windows" }).getByText("the <i>sale</i>").waitFor();
  await outside("push");
  await page.getByRole("heading", { name: `${service} held` }).waitFor();
  await check(page, "service-closed");
  await page.getByRole("button", { name: "Sync" }).click();
  await dialog.getByRole("button", { name: "Sync" }).click();
  await dialog.getByRole("alert").getByText("the <i>sale</i>").waitFor();
  await dialog.getByLabel("Override them").check();
  await dialog.getByRole("button", { name: "Sync" }).click();
  await outside("applied");
  await page.goto(`${hub}/project/steered`);
  await page.getByRole("button", { name: "Unfreeze" }).click();
  await dialog.getByRole("button", { name: "Unfreeze" }).click();
  await page.getByRole("button", { name: "Freeze", exact: true }).waitFor();

  // One person asks for a role, another one lends it and ends it.
  const other = await logIn(othersLink);
  const theirs = other.locator("dialog[open]");
  await other.goto(copied);
  await other.getByText("<img src=x onerror=window.stolen=1>\\u{1b}[31m\\u{202e}").waitFor();
  await other.goto(`${hub}/cluster/${cluster}`);
  await other.getByRole("link", { name: "ask for access" }).click();
  await other.getByLabel("Role").fill("operator");
  await other.getByLabel("Reason").fill("the shop is <u>down</u>");
  await other.getByRole("button", { name: "Ask", exact: true }).click();
  const asked = other.getByRole("row", { name: /the shop is <u>down<\/u>/ });
  await asked.getByText("waits", { exact: true }).waitFor();
  if (await asked.getByRole("button", { name: "Approve" }).count()) wrong.push("a person may approve their own request");
  await check(other, "access-requests");
  await page.goto(`${hub}/access?tab=requests`);
  const waiting = page.getByRole("row", { name: /the shop is <u>down<\/u>/ });
  await waiting.getByRole("button", { name: "Approve" }).click();
  await dialog.getByLabel("Reason").fill("go on");
  await dialog.getByRole("button", { name: "Approve" }).click();
  await waiting.getByText("lent", { exact: true }).waitFor();
  await asked.getByText("lent", { exact: true }).waitFor();
  await asked.getByRole("button", { name: "End" }).click();
  await theirs.getByRole("button", { name: "End" }).click();
  await other.getByText("Nothing waits, and nothing is lent.").waitFor();

  // A shell that was recorded is played; who may not view it is told so.
  await outside("shell");
  await page.goto(`${hub}/access?tab=recordings&cluster=${cluster}`);
  await page.getByRole("row", { name: /steered\/recorded/ }).getByRole("link").first().click();
  await page.getByText("user:").first().waitFor();
  await page.getByRole("button", { name: "Play again" }).waitFor();
  await page.locator(".xterm").getByText("seen in a shell").first().waitFor({ state: "attached" });
  await check(page, "recording");
  await other.goto(page.url());
  await other.getByRole("alert").waitFor();
  await other.goto(`${hub}/access?tab=recordings`);
  await other.getByText("There is no recording that you may view.").waitFor();

  // What the hub runs.
  await page.goto(`${hub}/hub`);
  await page.getByRole("region", { name: "Replicas" }).getByRole("row", { name: /gitcache/ }).getByText("serves").first().waitFor();
  await check(page, "hub-replicas");
  await page.goto(`${hub}/hub?tab=gitcaches`);
  await page.getByRole("link", { name: "sample" }).waitFor();
  await page.getByRole("button", { name: "Drain" }).click();
  await dialog.getByRole("button", { name: "Drain" }).click();
  await dialog.getByRole("alert").waitFor(); // it is the last one
  await dialog.getByRole("button", { name: "Cancel" }).click();
  await check(page, "hub-gitcaches");
  await page.goto(`${hub}/hub?tab=tunnels`);
  await page.getByRole("link", { name: cluster }).first().waitFor();
  await check(page, "hub-tunnels");
  await page.goto(`${hub}/cluster/${cluster}`);
  await page.getByText("there and back").waitFor();
  await check(page, "cluster");
  if (await page.evaluate(() => globalThis.stolen)) wrong.push("what a repository holds has run in a page");
});
