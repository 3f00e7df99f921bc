import { expect, test } from "vitest";
import { allowedOf, refusalOf, SandboxBlock } from "./sandbox-policy.ts";

const none = { hosts: [], read: [], write: [] };

test.each([
  [1000, 1000],
  ["1000", 1000],
  ["300M", 300 * 2 ** 20],
  ["2G", 2 * 2 ** 30],
])("memory and tmp: %s is %i bytes", (text, bytes) => {
  expect(SandboxBlock.parse({ memory: text, tmp: text })).toEqual({ memory: bytes, tmp: bytes });
});

test.each([
  [{ memory: "2X" }, "must be bytes, or like 300M or 2G"],
  [{ memory: 0 }, "must be bytes"],
  [{ tmp: "-1" }, "must be bytes"],
  [{ processes: 1.5 }, "must be a whole number"],
  [{ hosts: ["http://a"] }, "is no host"],
  [{ hosts: "npm" }, "must be a list of hosts"],
  [{ read: ["relative"] }, "must be an absolute path"],
  [{ read: ["/a/../etc"] }, "must be an absolute path without . and .."],
  [{ other: 1 }, "Unrecognized key"],
])("%j is refused", (block, message) => {
  const result = SandboxBlock.safeParse(block);
  expect(result.error?.message).toContain(message);
});

test("the operator's, the profile's and the submission's lists count together; only the operator's lead to this host", () => {
  const allowed = allowedOf(
    { hosts: ["127.0.0.1:5432"], read: ["/opt/tools"], write: [] },
    SandboxBlock.parse({ hosts: ["npm", "localhost:80"], read: ["/data"], tmp: "1M" }),
    ["docs.example.com"],
  );
  expect(allowed).toMatchObject({
    read: ["/opt/tools", "/data"],
    write: [],
    temporaryBytes: 2 ** 20,
  });
  expect(allowed.hosts.filter(({ local }) => local).map(({ name }) => name)).toEqual(["127.0.0.1"]);
  expect(allowed.hosts.map(({ name }) => name)).toContain("docs.example.com");
  expect(allowedOf(none, { hosts: ["*"] }).hosts).toMatchObject([{ name: "*", isPublic: true }]);
  expect(allowedOf(none, {})).toMatchObject({ hosts: [], temporaryBytes: 2 ** 30 });
});

const reserved = ["/home/svc/.service", "/var/lib/svc/jobs"];

test.each([
  [{ read: ["/home/svc/.service"] }, /no agent may have/],
  [{ read: ["/home/svc/.service/jobs-config/x"] }, /no agent may have/],
  [{ read: ["/"] }, /no agent may have/],
  [{ write: ["/home/svc/"] }, /sandbox\.write names \/home\/svc\//],
])("%j holds the service's state", (block, message) => {
  expect(refusalOf(block, { reserved, isCompanion: false, serviceWide: none })).toMatch(message);
});

test("what lies beside is not refused", () => {
  expect(
    refusalOf(
      { read: ["/home/svc/.service-tools", "/opt"] },
      { reserved, isCompanion: false, serviceWide: none },
    ),
  ).toBeNull();
});

test("a companion's profile reads installed programs only, and neither writes nor opens the network without the operator's leave", () => {
  const of = (block: SandboxBlock, serviceWide = none) =>
    refusalOf(block, { reserved, isCompanion: true, serviceWide });
  expect(of({ write: ["/data/x"] })).toMatch(/SERVICE_AGENT_SANDBOX_WRITE/);
  expect(of({ write: ["/data/x"] }, { ...none, write: ["/data"] as never[] })).toBeNull();
  expect(of({ hosts: ["*"] })).toMatch(/SERVICE_AGENT_SANDBOX_HOSTS/);
  expect(of({ hosts: ["*"] }, { ...none, hosts: ["*"] as never[] })).toBeNull();
  expect(of({ read: ["/data"] })).toMatch(/SERVICE_AGENT_SANDBOX_READ/);
  expect(of({ read: ["/data"] }, { ...none, read: ["/data"] as never[] })).toBeNull();
  expect(of({ hosts: ["npm"], read: ["/opt/sdk"] })).toBeNull();
});
