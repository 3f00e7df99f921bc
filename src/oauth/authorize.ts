import type { Log } from "../lib/log.ts";
import type { Call, Reply, Route } from "../http/route.ts";
import { readAuthorization, type Asked, type Way } from "./authorization-request.ts";
import { loggedId, type Clients } from "./clients.ts";
import { consentPage, faultPage } from "./consent-page.ts";
import type { Grants } from "./grants.ts";
import type { Places } from "./metadata.ts";
import { OAuthError } from "./oauth-error.ts";
import { readForm, type Parameters } from "./parameters.ts";

type Options = {
  places: Places;
  scopes: readonly string[];
  allowedRedirects: readonly string[];
  clients: Clients;
  grants: Grants;
  /** The principal of a key. Null: it is wrong. */
  principalOfKey: (key: Uint8Array) => string | null;
  /** There are keys; else everybody may do everything, and nobody is asked. */
  isKeyed: boolean;
  log: Log;
};

/**
 * `/authorize`: a client's request, and the form in which the user answers. The form is sent to the request's own address,
 * so that nothing is kept while the user thinks; what counts is the key in it, which no other page knows.
 */
export const authorizeRoutes = (options: Options): Route[] => {
  const { places, grants, principalOfKey, isKeyed, log } = options;
  const { origin } = new URL(places.issuer);

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
    const { client, state: _state, ...rest } = asked;
    const code = grants.begin({ client_id: client.client_id, key, ...rest });
    log.info(
      { client: loggedId(client), principal: key, scopes: asked.scopes },
      "OAuth: a client was permitted",
    );
    return back(asked, { code }, status);
  };

  const decide = async (
    form: Parameters,
    { asked, action, wrongKey }: Pick<Call, "wrongKey"> & { asked: Asked; action: string },
  ): Promise<Reply> => {
    const client = loggedId(asked.client);
    if (form.get("decision") !== "allow") {
      log.info({ client }, "OAuth: a client was denied");
      return back(asked, { error: "access_denied", error_description: "The user did not permit it" }, 303);
    }
    const principal = principalOfKey(Buffer.from(form.get("key") ?? ""));
    if (principal !== null) return permit(asked, principal, 303);
    log.warn({ client }, "OAuth: a wrong key was given");
    await wrongKey();
    return consentPage({
      asked,
      action,
      fault: "This key is not one of the service's; check it and try again",
    });
  };

  const handle = async ({ request, wrongKey }: Call): Promise<Reply> => {
    const isForm = request.method === "POST";
    if (isForm && request.headers.get("origin") !== origin)
      return faultPage(
        `This form was not sent from ${origin}; open the page there, and allow it to say so`,
        403,
      );
    const read = readAuthorization(request.url, options);
    if ("fault" in read) {
      const { fault, way } = read;
      log.info({ code: fault.oauthCode }, "OAuth: a request to sign in was refused");
      if (way === null) return faultPage(fault.message);
      return back(way, { error: fault.oauthCode, error_description: fault.message }, isForm ? 303 : 302);
    }
    const { asked } = read;
    if (!isKeyed) return permit(asked, "open", 302);
    const { pathname, search } = new URL(request.url);
    const action = `${pathname.endsWith("/") ? "../" : ""}authorize${search}`;
    if (!isForm) return consentPage({ asked, action, fault: null });
    try {
      return await decide(await readForm(request), { asked, action, wrongKey });
    } catch (error) {
      if (error instanceof OAuthError) return faultPage(error.message);
      throw error;
    }
  };

  return (["get", "post"] as const).map((method) => ({ method, path: "/authorize", open: true, handle }));
};
