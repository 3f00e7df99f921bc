import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryDirectory } from "../../test/temporary.ts";
import { kvAddress, parseKvUrl, readKvOptions } from "./kv-url.ts";

const plain = {
  hosts: [{ host: "h", port: 6379 }],
  tls: false,
  username: undefined,
  password: undefined,
  database: 0,
  options: {},
};

test.each([
  ["redis://h", {}],
  ["REDIS://h:1", { hosts: [{ host: "h", port: 1 }] }],
  ["valkey://h/", {}],
  ["rediss://h/3", { tls: true, database: 3 }],
  ["valkeys://h", { tls: true }],
  ["redis://:p%40ss%2F@h", { password: "p@ss/" }],
  ["redis://user:p:q@h", { username: "user", password: "p:q" }],
  ["redis://user@h", { username: "user" }],
  ["redis://[::1]:7000", { hosts: [{ host: "::1", port: 7000 }] }],
])("%s is understood", (url, over) => {
  expect(parseKvUrl(url)).toEqual({ ...plain, ...over });
});

test.each([
  ["", /must be redis:/],
  ["localhost:6379", /must be redis:/],
  ["http://user:hunter2@h", /must be redis:/],
  ["redis+cluster://h", /must be redis:/],
  ["redis://user:hunter2@", /must be redis:/],
  ["redis://h:0", /must be redis:/],
  ["redis://h:65536", /must be redis:/],
  ["redis://user:hunter2@h/name", /number of the database/],
  ["redis://h/1/2", /number of the database/],
  ["redis://user:hunter2@h?db=1", /KV_OPTIONS_FILE/],
  ["redis://user:hunter2%zz@h", /percent-encoded/],
])("%s is refused with a sentence that does not repeat credentials", (url, sentence) => {
  expect(parseKvUrl(url)).toMatch(sentence);
  expect(parseKvUrl(url)).not.toMatch(/hunter2/);
});

const fileWith = async (text: string): Promise<string> => {
  const file = join(await temporaryDirectory(), "kv.json");
  await writeFile(file, text);
  return file;
};

test("the file of options names sentinels or nodes of a Cluster, which come before the host, and others of ioredis", async () => {
  const hosts = [{ host: "a", port: 1 }];
  for (const options of [
    { cluster: hosts },
    { sentinels: hosts, name: "main", enableTLSForSentinelMode: true },
  ]) {
    const address = kvAddress("redis://h/2", await fileWith(JSON.stringify(options)));
    expect(address).toEqual({ ...plain, database: 2, hosts, options });
  }
});

test.each([
  ["hunter2", /it is no JSON/],
  ["[]", /is wrong/],
  ['{"cluster":[]}', /is wrong: cluster/],
  ['{"cluster":[{"host":"a"}]}', /is wrong: cluster 0 port/],
  ['{"sentinels":[{"host":"a","port":1}]}', /go together/],
])("options %s are refused with a sentence", async (text, sentence) => {
  const said = readKvOptions(await fileWith(text));
  expect(said).toMatch(sentence);
  expect(said).not.toMatch(/hunter2/);
});

test("a missing file of options is named", () => {
  expect(() => kvAddress("redis://h", "/nowhere/kv.json")).toThrow(/^KV_OPTIONS_FILE .*\/nowhere\/kv.json/);
});
