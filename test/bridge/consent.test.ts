import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import * as oauth from "oauth4webapi";
import type { Page } from "playwright-core";
import { expect, onTestFinished, test } from "vitest";
import { accessibilityFaultsInAllViews, openBrowser } from "../browser.ts";
import { afterFile } from "../cleanup.ts";
import { lastingPort } from "../lasting-port.ts";
import { until } from "../until.ts";
import { recordedHome, serveBridge } from "./run-bridge.ts";

/* The page on which a user permits a client, in a real browser, with the real service and a strict client. */

const key = "key-of-the-tests";
const port = await lastingPort();
const issuer = `http://127.0.0.1:${port}`;
await serveBridge(await recordedHome(), {
  BRIDGE_PORT: String(port),
  BRIDGE_API_KEYS: key,
  OAUTH_ISSUER_URL: issuer,
});
const browser = await openBrowser();

/** What has come back to the application. */
const answers: URLSearchParams[] = [];
const application = createServer(({ url = "" }, response) => {
  const { pathname, searchParams } = new URL(url, "http://127.0.0.1");
  if (pathname === "/callback") answers.push(searchParams);
  // Some applications sign in on a page of their own, which sends the browser on to the program.
  if (pathname === "/onward")
    return void response.writeHead(302, { location: searchParams.get("to") ?? "" }).end();
  response.setHeader("content-type", "text/html").end("<title>The application</title>");
}).listen(0, "127.0.0.1");
await once(application, "listening");
afterFile(() => (application.closeAllConnections(), application.close()));
const own = `http://127.0.0.1:${(application.address() as AddressInfo).port}`;

const insecure = { [oauth.allowInsecureRequests]: true };
const as = await oauth.processDiscoveryResponse(
  new URL(issuer),
  await oauth.discoveryRequest(new URL(issuer), { algorithm: "oauth2", ...insecure }),
);

/** An application that asks for access. */
const newApplication = async ({ name = "Reader", scope = "read", redirect = `${own}/callback` } = {}) => {
  const metadata = { redirect_uris: [redirect], token_endpoint_auth_method: "none", client_name: name };
  const client = await oauth.processDynamicClientRegistrationResponse(
    await oauth.dynamicClientRegistrationRequest(as, metadata, insecure),
  );
  const verifier = oauth.generateRandomCodeVerifier();
  const state = oauth.generateRandomState();
  const asked = new URLSearchParams({
    response_type: "code",
    client_id: client.client_id,
    redirect_uri: redirect,
    code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
    code_challenge_method: "S256",
    resource: `${issuer}/mcp`,
    scope,
    state,
  });
  const received = () => answers.filter((answer) => answer.get("state") === state);
  const signIn = async (): Promise<string> => {
    const answer = oauth.validateAuthResponse(as, client, received()[0] ?? new URLSearchParams(), state);
    const response = await oauth.authorizationCodeGrantRequest(
      as,
      client,
      oauth.None(),
      answer,
      redirect,
      verifier,
      insecure,
    );
    return (await oauth.processAuthorizationCodeResponse(as, client, response)).access_token;
  };
  return { url: `${as.authorization_endpoint}?${asked.toString()}`, received, signIn };
};

/** A page of a user who has come for the first time, and what it asked of others than the service and the application. */
const open = async (url: string): Promise<{ page: Page; elsewhere: string[] }> => {
  const context = await browser.newContext();
  onTestFinished(() => context.close());
  const page = await context.newPage();
  const elsewhere: string[] = [];
  page.on("request", (request) => {
    if (![issuer, own].includes(new URL(request.url()).origin)) elsewhere.push(request.url());
  });
  await page.goto(url);
  return { page, elsewhere };
};

const keyField = (page: Page) => page.getByLabel("One of the service's keys");
const allow = (page: Page) => page.getByRole("button", { name: "Allow" });

test("the page names who asks for what; with keys only, the right one signs the application in", async () => {
  const { url, received, signIn } = await newApplication({ name: "Reader 7", scope: "read dispatch" });
  const { page, elsewhere } = await open(url);
  const main = page.getByRole("main");
  for (const words of ["Reader 7", new URL(own).host, "read and search", "give coding agents new tasks"])
    expect(await main.textContent()).toContain(words);
  await page.keyboard.press("Tab");
  await page.keyboard.type(key);
  await page.keyboard.press("Enter");
  await page.waitForURL(`${own}/callback?*`);
  expect(received()).toHaveLength(1);
  const requestInit = { headers: { authorization: `Bearer ${await signIn()}` } };
  const client = new Client({ name: "test", version: "1" });
  await client.connect(new StreamableHTTPClientTransport(new URL(`${issuer}/mcp`), { requestInit }));
  expect((await client.listTools()).tools).toHaveLength(16);
  await client.close();
  expect(elsewhere).toEqual([]);
});

test("after a wrong key the page says so, and the field waits for another; by keys alone a user can deny", async () => {
  const { url, received } = await newApplication();
  const { page } = await open(url);
  await keyField(page).fill("wrong");
  await allow(page).click();
  const alert = page.getByRole("alert");
  expect(await alert.textContent()).toMatch(/key is not one of the service's/);
  expect(await page.title()).toMatch(/^Error:/);
  const field = keyField(page);
  expect(await field.getAttribute("aria-describedby")).toBe(await alert.getAttribute("id"));
  expect(await field.getAttribute("aria-invalid")).toBe("true");
  expect(await field.inputValue()).toBe("");
  expect(await page.locator(":focus").getAttribute("id")).toBe(await field.getAttribute("id"));
  for (const pressed of ["Tab", "Tab", "Enter"]) await page.keyboard.press(pressed);
  await page.waitForURL(`${own}/callback?*`);
  expect(received().map((answer) => answer.get("error"))).toEqual(["access_denied"]);
});

test("the pages are accessible, in light and dark, on a wide screen and a phone", async () => {
  const { url } = await newApplication({ name: "W".repeat(200) });
  const { page } = await open(url);
  const inspect = async () => expect(await accessibilityFaultsInAllViews(page)).toEqual([]);
  await inspect();
  await allow(page).click();
  await page.getByRole("alert").waitFor();
  await inspect();
  await page.goto(`${issuer}/authorize?client_id=nobody`);
  await inspect();
});

test.each([
  "</strong><script>document.title='ran'</script><img src=x onerror=\"document.title='ran'\">",
  "\u202Eevil",
])("an application that calls itself %j is shown with this text", async (name) => {
  const { page, elsewhere } = await open((await newApplication({ name })).url);
  expect(await page.locator("bdi").textContent()).toBe(name);
  expect(await page.title()).toBe("Sign in to the transcript service");
  expect(elsewhere).toEqual([]);
});

test("the policy stops what would get into the page, and other pages from framing it", async () => {
  const { url } = await newApplication();
  const { page } = await open(url);
  const stopped: string[] = [];
  page.on("console", (message) => {
    const [, directive] = /Content Security Policy directive:? ["']([\w-]+)/.exec(message.text()) ?? [];
    if (directive !== undefined) stopped.push(directive);
  });
  await page.evaluate(`
    const script = document.createElement("script");
    script.textContent = "document.title = 'ran'";
    const image = new Image();
    image.src = ${JSON.stringify(own)} + "/image";
    document.body.append(script, image);
  `);
  await until(() => stopped.length === 2);
  expect(await page.title()).toBe("Sign in to the transcript service");
  await page.goto(own);
  await page.evaluate(`
    const frame = document.createElement("iframe");
    frame.src = ${JSON.stringify(url)};
    document.body.append(frame);
  `);
  await until(() => stopped.length === 3);
  expect(stopped).toEqual(["default-src", "default-src", "frame-ancestors"]);
});

test.each(["cursor://anysphere.cursor-retrieval/oauth/callback", "http://[::1]:7777/callback"])(
  "the policy lets the answer go to %s",
  async (redirect) => {
    const { page } = await open((await newApplication({ redirect })).url);
    await keyField(page).fill(key);
    const answered = page.waitForRequest((request) => request.url().startsWith(`${redirect}?code=`));
    await allow(page).click();
    await answered;
  },
);

test.each([
  "warp://mcp/oauth2callback?code=x",
  "com.example.app:/done",
  "http://localhost:7777/done",
  "https://127.0.0.1:7777/done",
])("the application may send the browser on to %s", async (to) => {
  const redirect = `${own}/onward?${new URLSearchParams({ to }).toString()}`;
  const { url } = await newApplication({ redirect });
  const { page } = await open(url.replace("/authorize?", "/authorize/?"));
  await keyField(page).fill(key);
  const sentOn = page.waitForRequest((request) => request.url() === to);
  await allow(page).click();
  await sentOn;
});

test("a double click on a slow line, and the way back, give no second code", async () => {
  const { url, received } = await newApplication();
  const { page } = await open(url);
  let sent = 0;
  await page.route(/\/authorize\?/, async (route) => {
    sent += 1;
    if (sent > 1) return route.continue();
    // The service has answered, and the answer does not come before the second click.
    await route.fetch({ maxRedirects: 0 });
    await page.mouse.up();
  });
  await keyField(page).fill(key);
  await allow(page).hover();
  await page.mouse.down();
  await page.mouse.up();
  await page.mouse.down();
  await until(async () => (await page.title()) === "The application");
  expect(sent).toBe(2);
  await page.goBack();
  expect(await keyField(page).inputValue()).toBe("");
  await allow(page).click();
  await page.getByRole("alert").waitFor();
  expect(received()).toHaveLength(1);
});
