import { createServer, type Server } from "node:https";
import type { IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { afterFile } from "../cleanup.ts";
import { createCertificate } from "../fake-git-host/certificate.ts";

type ReceivedRequest = { method: string; url: string; headers: IncomingMessage["headers"] };

/**
 * Another https server on loopback, which writes down what it hears. It asks for credentials at once, or sends everybody
 * who has brought some on to `redirectTo`.
 */
export const startEavesdropper = async ({ redirectTo }: { redirectTo?: string } = {}) => {
  const { key, certificate } = await createCertificate();
  const requests: ReceivedRequest[] = [];
  const server = createServer({ key, cert: certificate }, (request, response) => {
    requests.push({ method: request.method ?? "", url: request.url ?? "", headers: request.headers });
    request.resume();
    if (redirectTo !== undefined && request.headers.authorization !== undefined) {
      response.writeHead(307, { location: redirectTo + (request.url ?? "") }).end();
    } else {
      response.writeHead(401, { "www-authenticate": 'Basic realm="elsewhere"' }).end("Who are you?\n");
    }
  });
  const port = await listen(server);
  afterFile(() => {
    server.close();
    server.closeAllConnections();
  });
  return { host: `localhost:${port}`, origin: `https://localhost:${port}`, port, certificate, requests };
};

const listen = (server: Server): Promise<number> =>
  new Promise((resolve) => {
    server.listen(0, "127.0.0.1", () => resolve((server.address() as AddressInfo).port));
  });
