// What strangers and accidents do to a session, and hostile sizes: session.mjs CHROMIUM LINK SECOND_LINK THIRD_LINK [FOLDER]. All links are of one person.
import { act, type, typed } from "./person.mjs";

const [executablePath, link, second, third, folder] = process.argv.slice(2);
const hub = new URL(link).origin;

await act(executablePath, folder, async ({ logIn, check, wrong }) => {
  const page = await logIn(link);

  // A login link that names a page of another host leads to the fleet.
  for (const evil of ["https://evil.example", "//evil.example", "/\\evil.example", "javascript:alert(1)"]) {
    await page.goto(`${hub}/v1/login/once?to=${encodeURIComponent(evil)}#x`);
    await page.getByRole("heading", { name: "Fleet", level: 1 }).waitFor();
    if (new URL(page.url()).origin !== hub) wrong.push(`${evil} leads to ${page.url()}`);
  }

  // No page of others shows the hub in a frame.
  const framed = await page.context().newPage();
  await framed.goto("about:blank");
  await framed.setContent(`<iframe src="${hub}/services" width="600" height="400"></iframe>`);
  await framed.waitForFunction(() => document.querySelector("iframe").contentDocument === null); // an error page, or a page of another origin
  const shown = framed.frames().find((f) => f !== framed.mainFrame());
  if ((await shown?.locator("body").innerText().catch(() => ""))?.includes("Services")) wrong.push("the hub is shown in a frame");
  await framed.close();

  // 5 MB of YAML are taken in, judged and left again.
  await page.goto(`${hub}/apply?kind=Project`);
  const project = (text) => `apiVersion: fairlead.dev/v1\nkind: Project\nmetadata: {name: hostile}\nspec:\n  description: |\n${text}`;
  const large = project("    0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef012345678\n".repeat(66_000));
  if (large.length < 5_000_000) wrong.push("the text is not large enough");
  await type(page, large);
  await page.getByRole("button", { name: "Show what changes" }).click();
  await page.getByRole("alert").first().waitFor();
  await page.getByRole("link", { name: "Services", exact: true }).click();
  await page.getByRole("heading", { name: "Services" }).waitFor();

  // An error of 1 MB is cut, and the cut is said. No hub sends one: a proxy might. The tab's stream would bring the list after all.
  const words = `<img src=x onerror=window.stolen=1>${"0123456789abcdef".repeat(1 << 16)}`;
  await page.route("**/fairlead.console.v1.ClusterService/ListClusters*", (route) =>
    route.fulfill({ status: 400, contentType: "application/json", body: JSON.stringify({ code: "invalid_argument", message: words }) }),
  );
  await page.route("**/fairlead.console.v1.LiveService/*", (route) => route.abort());
  await page.goto(`${hub}/clusters`);
  await page.getByText("more characters").waitFor();
  const length = (await page.innerText("body")).length;
  if (length > 20_000) wrong.push(`an error of 1 MB makes a page of ${length} characters`);
  await check(page, "large-error");
  await page.unroute("**/fairlead.console.v1.ClusterService/ListClusters*");
  await page.unroute("**/fairlead.console.v1.LiveService/*");
  if (await page.evaluate(() => globalThis.stolen)) wrong.push("an error has run in a page");

  // A hub that was upgraded has another document; the page says so, and the person chooses when.
  await page.route(`${hub}/`, (route) =>
    route.request().resourceType() === "fetch"
      ? route.fulfill({ contentType: "text/html", body: '<script type="module" crossorigin src="/assets/index-newer.js"></script>' })
      : route.continue(),
  );
  await page.goto(`${hub}/clusters`);
  await page.getByText("The hub has a newer version of this page.").waitFor();
  await check(page, "newer");
  await page.unroute(`${hub}/`);
  await page.getByRole("button", { name: "Load it" }).click();
  await page.getByText("The hub has a newer version of this page.").waitFor({ state: "detached" });

  // Signed out everywhere by another browser, while a stream runs: the page says so within 30 s, and keeps what was typed.
  await page.goto(`${hub}/apply?kind=Sink`);
  await type(page, "typed and not sent");
  // A stream of this session that no script of the pages ends.
  const streams = page.evaluate(async () => {
    const body = new Uint8Array([0, 0, 0, 0, 2, 123, 125]); // {}
    const headers = { "Content-Type": "application/connect+json", "Connect-Protocol-Version": "1" };
    const answer = await fetch("/fairlead.console.v1.EventService/WatchEvents", { method: "POST", headers, body });
    const reader = answer.body.getReader();
    const over = (async () => {
      while (!(await reader.read().catch(() => ({ done: true }))).done);
    })();
    await Promise.race([over, new Promise((late) => setTimeout(late, 120_000))]);
    return { status: answer.status, ended: Date.now() };
  });
  const other = await logIn(second);
  await other.goto(`${hub}/me`);

  // A person sees both logins, which one is this, and from where.
  const logins = other.getByRole("region", { name: "Logins" });
  const own = logins.getByRole("row").filter({ hasText: "this one" });
  await own.getByText("by a link").waitFor();
  await own.getByText("127.0.0.1").first().waitFor();
  if ((await own.count()) !== 1 || (await own.getByRole("button", { name: "End" }).count()) !== 0) wrong.push(`the own login: ${await logins.innerText()}`);
  const others = logins.getByRole("row").filter({ has: other.getByRole("button", { name: "End", exact: true }) });
  const before = await others.count();
  if (before < 1) wrong.push(`other logins: ${await logins.innerText()}`);
  await check(other, "logins");
  await other.getByRole("button", { name: "Sign out everywhere" }).click();
  await check(other, "sign-out");
  const began = Date.now();
  await other.locator("dialog[open]").getByRole("button", { name: "Sign out everywhere" }).click();
  await other.getByLabel("Login link").waitFor();
  const again = page.getByRole("dialog", { name: "Log in again" });
  await again.waitFor();
  const took = Date.now() - began;
  if (took > 30_000) wrong.push(`the page learns after ${took} ms that its session is over`);
  const stream = await streams;
  if (stream.status !== 200 || stream.ended - began > 30_000) wrong.push(`the stream of a session that is over: ${JSON.stringify(stream)}, began ${began}`);
  await check(page, "log-in-again");
  await again.getByLabel("Login link").fill(third);
  await again.getByRole("button", { name: "Log in" }).click();
  await again.waitFor({ state: "detached" });
  if ((await typed(page)) !== "typed and not sent") wrong.push("what was typed is lost");

  // Nothing of the session is where a script or a passer-by finds it.
  const stored = await page.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage }) + document.cookie + location.href);
  for (const l of [link, second, third]) if (stored.includes(l.split("#")[1])) wrong.push(`a script can read a login link: ${stored}`);
});
