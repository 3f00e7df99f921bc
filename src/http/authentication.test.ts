import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createAuthentication } from "./access.ts";
import { createTestApp } from "./app.fixture.ts";

const key = fc.stringMatching(/^[\u0021-\u007e]{1,60}$/).filter((text) => !text.includes(","));

/** The three ways of sending a key. */
const ways = (sent: string): Request[] => [
  new Request("http://localhost/jobs", { headers: { "x-api-key": sent } }),
  new Request("http://localhost/jobs", { headers: { authorization: `Bearer ${sent}` } }),
  new Request(`http://localhost/jobs?api_key=${encodeURIComponent(sent)}`),
];

describe("keys", () => {
  test("each configured key is accepted in each way, with a principal of its own that does not show it", () => {
    fc.assert(
      fc.property(fc.uniqueArray(key, { minLength: 2, maxLength: 5 }), (keys) => {
        const authenticate = createAuthentication(keys);
        const principals = keys.map((key) => ways(key).map((request) => authenticate(request)?.principal));
        for (const [index, same] of principals.entries()) {
          expect(new Set(same).size).toBe(1);
          expect(same[0]).not.toBe(keys[index]);
        }
        expect(new Set(principals.flat()).size).toBe(keys.length);
      }),
    );
  });

  test("no other text is accepted in any way, however near", () => {
    fc.assert(
      fc.property(
        key,
        fc.oneof(key, fc.constantFrom("", " ", "null", "undefined")),
        fc.nat(),
        (good, other, at) => {
          const authenticate = createAuthentication([good]);
          const near = [
            other,
            `${good}x`,
            good.slice(0, -1),
            good.toUpperCase(),
            good.slice(0, at % good.length) + good.slice((at % good.length) + 1),
          ];
          for (const bad of near.filter((text) => text.trim() !== good)) {
            for (const request of ways(bad)) expect(authenticate(request)).toBe(null);
          }
        },
      ),
    );
  });

  test("a key beyond ASCII is compared by its UTF-8 bytes", () => {
    const known = createAuthentication(["schlüssel"]);
    const authenticate = (request: Request) => known(request)?.principal;
    const asSent = Buffer.from("schlüssel").toString("latin1");
    expect(authenticate(new Request("http://localhost/", { headers: { "x-api-key": asSent } }))).toMatch(
      /^[\da-f]{16}$/,
    );
    expect(authenticate(new Request("http://localhost/?api_key=schl%C3%BCssel"))).toMatch(/^[\da-f]{16}$/);
  });

  test("whoever brings several keys is let in if one of them is right: by the header, then the bearer token, then the query", () => {
    const known = createAuthentication(["one", "two"]);
    const authenticate = (request: Request) => known(request)?.principal ?? null;
    const request = (headers: Record<string, string>, query = "") =>
      new Request(`http://localhost/${query}`, { headers });
    const one = authenticate(request({ "x-api-key": "one" }));
    expect(authenticate(request({ "x-api-key": "one", authorization: "Bearer two" }, "?api_key=bad"))).toBe(
      one,
    );
    expect(authenticate(request({ authorization: "bearer one" }, "?api_key=two"))).toBe(one);
    expect(authenticate(request({ "x-api-key": "", authorization: "Basic eDp5" }, "?api_key=one"))).toBe(one);
    expect(authenticate(request({ "x-api-key": "bad", authorization: "Bearer one" }))).toBe(one);
    expect(authenticate(request({ "x-api-key": "bad" }, "?api_key=bad&api_key=one"))).toBe(one);
    expect(authenticate(request({ "x-api-key": "bad", authorization: "Bearer bad" }, "?api_key=worse"))).toBe(
      null,
    );
  });
});

describe("with keys", () => {
  const paths =
    "/jobs /metrics /openapi.json /docs /docs/start.js /jobs/x/events /nothing /jobs/%zz /health//";
  test.each([
    ...paths.split(" ").map((path) => ["GET", path] as const),
    ["POST", "/jobs"],
    ["PUT", "/jobs"],
    ["POST", "/health"],
  ] as const)("%s %s needs one: 401 to the letter, before anything else is said", async (method, path) => {
    const { app, contexts } = createTestApp({ apiKeys: ["sesame"] });
    for (const headers of [{}, { "x-api-key": "wrong" }]) {
      const answer = await app.request(path, { method, headers });
      expect(answer.status).toBe(401);
      expect(await answer.text()).toBe('{"error":"Invalid or missing API key"}');
      expect(answer.headers.get("www-authenticate")).toBe("Bearer");
      expect(answer.headers.get("allow")).toBe(null);
    }
    expect(contexts).toEqual([]);
  });

  test("health and readiness need none", async () => {
    const { app } = createTestApp({ apiKeys: ["sesame"] });
    expect(await (await app.request("/health")).json()).toEqual({ status: "ok", service: "svc" });
    expect(await (await app.request("/ready?api_key=wrong")).json()).toEqual({
      ready: true,
      reasons: [],
      checks: [],
      companions: [],
      transcripts: false,
    });
  });

  test("a page of documentation opened with a key passes it on to all it loads", async () => {
    const { app } = createTestApp({ apiKeys: ['se&same"<'] });
    const answer = await app.request(`/docs?api_key=${encodeURIComponent('se&same"<')}`);
    expect(answer.headers.get("content-security-policy")).toContain("default-src 'none'; script-src 'self'");
    const html = await answer.text();
    const links = [...html.matchAll(/(?:src|href)="(docs\/[^"]+)"/g)].map(([, link]) => link);
    expect(links).toHaveLength(3);
    for (const link of links) expect([link, (await app.request(`/${link}`)).status]).toEqual([link, 200]);
    expect(html).not.toMatch(/<script>|https?:\/\//);
  });
});

const reasons = ["/srv/jobs cannot be written"];

test.each([
  ["without keys", [], {}, reasons],
  ["with a key", ["sesame"], { "x-api-key": "sesame" }, reasons],
  // They name paths and addresses.
  ["without the key", ["sesame"], { "x-api-key": "wrong" }, ["Send a key to see the reasons"]],
])(
  "a service that is not ready answers 503, and to a caller %s with the reasons it may see",
  async (_, apiKeys, headers, told) => {
    const rest = { ready: false, checks: [], companions: [] };
    const { app } = createTestApp({ apiKeys, readiness: async () => ({ ...rest, reasons }) });
    const answer = await app.request("/ready", { headers: headers as Record<string, string> });
    expect([answer.status, answer.headers.get("retry-after")]).toEqual([503, "5"]);
    expect(await answer.json()).toEqual({ ...rest, reasons: told, transcripts: false });
  },
);
