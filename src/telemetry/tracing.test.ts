import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { sendSpans, tracingBackend } from "./tracing.ts";

const backend = async (answer: RequestListener) => {
  const server = createServer(answer).listen(0, "127.0.0.1");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/traces`;
  return { url, authorization: "Basic c2VjcmV0" };
};

const service = { name: "svc", version: "1" };

test("of a backend that answers without an end only the beginning is read", async () => {
  const endless =
    (status: number): RequestListener =>
    (_, response) => {
      response.writeHead(status);
      const write = (): void => {
        while (!response.destroyed && response.write("x".repeat(65_536)));
      };
      response.on("drain", write);
      write();
    };
  await sendSpans(await backend(endless(200)), [], service);
  const refused = sendSpans(await backend(endless(400)), [], service);
  await expect(refused).rejects.toMatchObject({
    message: `The tracing backend answered 400: ${"x".repeat(500)}`,
    permanent: true,
  });
});

test("a redirect is not followed: the credentials stay with the backend", async () => {
  const reached: string[] = [];
  const other = await backend((request, response) => {
    reached.push(request.headers.authorization ?? "");
    response.end();
  });
  const moved = await backend((_, response) => {
    response.writeHead(307, { location: other.url }).end();
  });
  await expect(sendSpans(moved, [], service)).rejects.toThrow("fetch failed");
  expect(reached).toEqual([]);
});

test("a backend is one with an address, whatever keys are set", () => {
  const keys = { tracingPublicKey: "pk", tracingSecretKey: "sk", tracingBasicAuth: "cGs6c2s=" };
  expect(tracingBackend({ ...keys, tracingHost: null })).toBeNull();
  expect(tracingBackend({ ...keys, tracingHost: "https://traces.example" })?.url).toMatch(
    /^https:\/\/traces\.example\//,
  );
});
