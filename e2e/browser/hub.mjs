// How the hub is, a person's logins, what a change of configuration touches, and a copied token, over a seeded console: hub.mjs CHROMIUM LINK SECOND_LINK
// THIRD_LINK CLUSTER SERVICE [FOLDER]. All links are of one person. There is no gitcache behind the console.
import { act, type, typed } from "./person.mjs";

const [executablePath, link, second, third, cluster, service, folder] = process.argv.slice(2);
const hub = new URL(link).origin;

await act(executablePath, folder, async ({ logIn, check, outside, wrong }) => {
  const page = await logIn(link);

  // Versions at the foot, in the help, and on the page of the hub; what the hub stands on.
  await page.locator(".rail .version", { hasText: "Fairlead " }).waitFor();
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keys" }).locator(".version").waitFor();
  await page.keyboard.press("Escape");
  await page.goto(`${hub}/hub`);
  await page.getByRole("region", { name: "Versions" }).getByText("This page").waitFor();
  const database = page.getByRole("region", { name: "Database" });
  await database.getByText("answers").waitFor();
  await database.getByText(/^SQLite 3\./).waitFor();
  await database.getByText(/^[\d.]+ [KMG]iB$/).waitFor();
  await database.getByText(/ago, durable after/).waitFor();
  await page.getByRole("region", { name: "Redis" }).getByRole("alert").waitFor();
  await page.getByRole("region", { name: "Alerts" }).getByText("FairleadDown", { exact: true }).waitFor();
  await page.getByRole("region", { name: "Alerts" }).getByText("<b>tunnel-0</b> is not there").waitFor();
  await page.getByRole("region", { name: "Replicas" }).getByRole("row", { name: /^console .* answers this page/ }).waitFor();
  await check(page, "hub");

  // A person ends another login, and sees at once that it is over.
  const other = await logIn(second);
  await page.goto(`${hub}/me`);
  const logins = page.getByRole("region", { name: "Logins" });
  const own = logins.getByRole("row").filter({ hasText: "this one" });
  await own.getByText("Chrome on").waitFor();
  await own.getByText("127.0.0.1").waitFor();
  if ((await own.count()) !== 1 || (await own.getByRole("button", { name: "End" }).count()) !== 0) wrong.push(`the own login: ${await logins.innerText()}`);
  await check(page, "logins");
  const theirs = logins.getByRole("row").filter({ hasText: "Chrome on" }).filter({ hasNotText: "this one" });
  await theirs.getByRole("button", { name: "End" }).click();
  await page.locator("dialog[open]").getByRole("button", { name: "End" }).click();
  await theirs.waitFor({ state: "detached" });
  await other.getByRole("dialog", { name: "Log in again" }).waitFor();

  // Another login begins and is seen on the page that asks again; all others end.
  const later = await logIn(third);
  await page.reload();
  await logins.getByRole("button", { name: "End", exact: true }).first().waitFor();
  await logins.getByRole("button", { name: "End all others" }).click();
  await page.locator("dialog[open]").getByRole("button", { name: "End all others" }).click();
  await logins.getByRole("button", { name: "End", exact: true }).first().waitFor({ state: "detached" });
  await own.waitFor();
  await later.getByRole("dialog", { name: "Log in again" }).waitFor();

  // Before a change of a set is written, the services that get other values are named.
  await page.goto(`${hub}/apply?kind=ConfigSet&name=regions`);
  const text = await typed(page);
  await type(page, text.replace("https://eu.example.com", "https://us.example.com"));
  await page.getByRole("button", { name: "Show what changes" }).click();
  const changes = page.getByRole("status", { name: "What changes" });
  await changes.getByText("1 service would get another configuration").waitFor();
  await changes.getByRole("link", { name: service, exact: true }).waitFor();
  await changes.getByText("endpoint", { exact: true }).waitFor();
  await check(page, "touched");
  await page.getByRole("button", { name: "Apply", exact: true }).click();
  await changes.getByText("1 service gets another configuration").waitFor();

  // The last delivery has its trace.
  await page.goto(`${hub}/service/${service}`);
  const trace = page.getByRole("region", { name: "Last delivery" }).getByRole("link", { name: /^[0-9a-f]{32}$/ });
  const id = await trace.innerText();
  if ((await trace.getAttribute("href")) !== `https://traces.example.com/trace/${id}`) wrong.push(`the trace leads to ${await trace.getAttribute("href")}`);

  // A token of an agent that somebody has copied alarms on the page that is open, by itself.
  await page.goto(`${hub}/cluster/${cluster}`);
  await page.locator(".live-mark", { hasText: "live" }).waitFor();
  if (await page.getByText("A copied token of its agent was used").count()) wrong.push("the alarm was there before");
  await outside("copy the token");
  const alarm = page.getByRole("alert").filter({ hasText: "A copied token of its agent was used" });
  await alarm.waitFor();
  await alarm.getByText(/from 127\.0\.0\.1: token .* was to be renewed again/).waitFor();
  await alarm.getByText(`fairlead cluster leave ${cluster}`).waitFor();
  await check(page, "copied-token");
});
