import type { Log } from "../lib/log.ts";
import type { Call, Reply, Route } from "../http/route.ts";
import { readAuthorization, type Asked, type Way } from "./authorization-request.ts";
import type { Clients } from "./clients.ts";
import { consentPage, faultPage } from "./consent-page.ts";
import { digestOf, newSecret } from "./digest.ts";
import type { Grants } from "./grants.ts";
import type { Places } from "./metadata.ts";
import { OAuthError } from "./oauth-error.ts";
import { readForm, type Parameters } from "./parameters.ts";
import type { PendingRequests } from "./pending.ts";

export type AuthorizeOptions = {
  places: Places;
  scopes: readonly string[];
  allowedRedirects: readonly string[];
  clients: Clients;
  grants: Grants;
  pending: PendingRequests;
  /** The principal of a key. Null: it is wrong. */
  principalOfKey: (key: Uint8Array) => string | null;
  /** Resolves when a wrong key may be answered. */
  wrongKey: () => Promise<void>;
  /** There are keys; else everybody may do everything, and nobody is asked. */
  isKeyed: boolean;
  log: Log;
  now: () => number;
};

const maxAttempts = 5;

/** `/authorize`: a client's request, and the form in which the user answers. */
export const authorizeRoutes = (options: AuthorizeOptions): Route[] => {
  const { places, grants, pending, principalOfKey, wrongKey, isKeyed, log, now } = options;
  const { origin, protocol } = new URL(places.issuer);
  const cookie =
    protocol === "https:"
      ? { name: "__Host-bridge-consent", attributes: "; Secure" }
      : { name: "bridge-consent", attributes: "" };

  const back = (
    { redirect_uri, state: clientState }: Way,
    answer: Record<string, string>,
    status: number,
  ): Reply => {
    const query = new URLSearchParams({
      ...answer,
      ...(clientState !== undefined && { state: clientState }),
      iss: places.issuer,
    });
    const location = `${redirect_uri}${redirect_uri.includes("?") ? "&" : "?"}${query.toString()}`;
    return { status, headers: { location, "cache-control": "no-store" }, body: null };
  };

  const permit = (asked: Asked, key: string, status: number): Reply => {
    const { client, redirect_uri, challenge, scopes, resources } = asked;
    client.used_at = now();
    client.confirmed = true;
    const code = grants.begin({
      client_id: client.client_id,
      key,
      redirect_uri,
      challenge,
      scopes,
      resources,
    });
    log.info({ client: client.client_id, principal: key, scopes }, "OAuth: a client was permitted");
    return back(asked, { code }, status);
  };

  const ask = (
    asked: Asked,
    browser: string,
    { attempts = 0, fault = null as string | null } = {},
  ): Reply => {
    const reply = consentPage({ asked, request: pending.add(asked, digestOf(browser), attempts), fault });
    const set = `${cookie.name}=${browser}; Path=/; HttpOnly; SameSite=Lax; Max-Age=600${cookie.attributes}`;
    return { ...reply, headers: { ...reply.headers, "set-cookie": set } };
  };

  const begin = ({ request }: Call): Reply => {
    const read = readAuthorization(request.url, options);
    if ("asked" in read) {
      if (!isKeyed) return permit(read.asked, "open", 302);
      // One value for all tabs of the browser, so that the second does not disown the first.
      return ask(read.asked, cookieOf(request, cookie.name) ?? newSecret());
    }
    const { fault, way } = read;
    log.info({ code: fault.code }, "OAuth: a request to sign in was refused");
    if (way === null) return faultPage(fault.message);
    return back(way, { error: fault.code, error_description: fault.message }, 302);
  };

  const submit = async ({ request }: Call): Promise<Reply> => {
    if (request.headers.get("origin") !== origin)
      return faultPage(
        `This form was not sent from ${origin}; open the page there, and allow it to say so`,
        403,
      );
    let form: Parameters;
    try {
      form = await readForm(request);
    } catch (error) {
      if (error instanceof OAuthError) return faultPage(error.message);
      throw error;
    }
    const browser = cookieOf(request, cookie.name) ?? "";
    const answer = pending.answer(form.get("request") ?? "", browser, ({ asked, attempts }) =>
      decide(form, asked, browser, attempts + 1),
    );
    return (
      (await answer) ??
      faultPage(
        "This page has expired, or was opened in another browser; sign in again from the application",
        403,
      )
    );
  };

  const decide = async (
    form: Parameters,
    asked: Asked,
    browser: string,
    attempts: number,
  ): Promise<Reply> => {
    const client = asked.client.client_id;
    const principal = principalOfKey(Buffer.from(form.get("key") ?? ""));
    if (form.get("decision") === "allow" && principal !== null) return permit(asked, principal, 303);
    if (form.get("decision") === "allow") {
      log.warn({ client, attempts }, "OAuth: a wrong key was given");
      await wrongKey();
      if (attempts < maxAttempts)
        return ask(asked, browser, {
          attempts,
          fault: "This key is not one of the service's; check it and try again",
        });
    }
    log.info({ client }, "OAuth: a client was denied");
    return back(asked, { error: "access_denied", error_description: "The user did not permit it" }, 303);
  };

  return [
    { method: "get", path: "/authorize", open: true, handle: begin },
    { method: "post", path: "/authorize", open: true, handle: submit },
  ];
};

const cookieOf = ({ headers }: Request, name: string): string | undefined => {
  const pairs = (headers.get("cookie") ?? "").split(/; */);
  const value = pairs.find((pair) => pair.startsWith(`${name}=`))?.slice(name.length + 1);
  return value !== undefined && /^[\w-]{43}$/.test(value) ? value : undefined;
};
