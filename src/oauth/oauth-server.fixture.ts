import { afterFile } from "../../test/cleanup.ts";
import { lastingPort } from "../../test/lasting-port.ts";
import { listen } from "../http/server.ts";
import { key, startOAuth } from "./oauth.fixture.ts";

/** The doors behind OAuth, on a port of loopback. */
export const listenOAuth = async (keys: readonly string[] = [key]) => {
  const port = await lastingPort();
  const issuer = `http://127.0.0.1:${port}`;
  const service = await startOAuth({ keys, host: "127.0.0.1", oauthIssuer: issuer });
  const server = await listen(service.app, { host: "127.0.0.1", port });
  afterFile(() => server.close(0));

  /** Opens the page and allows. @returns where the browser is sent */
  const allow = async (url: string | URL): Promise<string> => {
    const { send } = await service.openPage(await fetch(url));
    return (await send({}, { origin: issuer })).headers.get("location") ?? "";
  };
  return { ...service, issuer, allow };
};
