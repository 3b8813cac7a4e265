// From the fleet to a failing pod's events and log, with the keyboard only: why.mjs CHROMIUM LINK SERVICE POD [FOLDER].
import { act } from "./person.mjs";

const [executablePath, link, service, pod, folder] = process.argv.slice(2);

await act(executablePath, folder, async ({ logIn, check, wrong }) => {
  const page = await logIn(link);
  const focused = () => page.evaluate(() => document.activeElement?.textContent?.trim() ?? "");
  // Tab goes on until something with these words has the focus, which has to be seen.
  const tabTo = async (words) => {
    for (let i = 0; i < 120; i++) {
      await page.keyboard.press("Tab");
      if ((await focused()) !== words) continue;
      const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
      if (outline === "none") wrong.push(`the focus on ${words} is not seen`);
      return;
    }
    throw new Error(`no Tab leads to ${words}`);
  };
  await page.getByRole("link", { name: service, exact: true }).first().waitFor();
  await tabTo(service);
  await page.keyboard.press("Enter");

  // The page says the cause, since when, and what the cluster says: pod, exit code, events, last lines.
  await page.getByRole("heading", { name: new RegExp(`^${service} (failed|degraded)`) }).waitFor();
  const why = page.getByRole("region", { name: "Why" });
  await why.getByText(`Pod ${pod}`, { exact: true }).waitFor();
  await why.getByText("exit code 3").first().waitFor();
  await why.getByText("BackOff: the container <b>does not start</b>").waitFor();
  await why.getByText(/line \d+ of a container played/).waitFor();
  await check(page, "why");
  await page.keyboard.press("l");
  await page.waitForURL(/tab=logs/);
  await page.getByRole("region", { name: "Lines" }).getByText(/line \d+ of a container played/).first().waitFor();
  await page.keyboard.press("e");
  await page.waitForURL(/tab=events/);
  await page.getByText("service.applied").first().waitFor();
  await page.getByRole("region", { name: "Events of the cluster" }).getByText("the container <b>does not start</b>").first().waitFor();
  await page.keyboard.press("[");
  await page.waitForURL(/tab=logs/);

  // The other way: to the pod's events as the cluster has them.
  await page.goto(`${new URL(link).origin}/service/${service}`);
  await why.getByText(`Pod ${pod}`, { exact: true }).waitFor();
  await tabTo("Events");
  await page.keyboard.press("Enter");
  await page.getByText("the container <b>does not start</b>").first().waitFor();
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keys" }).waitFor();
  await page.keyboard.press("Escape");
});
