import { expect, test } from "vitest";
import { parseKvUrl } from "./kv-url.ts";

const plain = {
  mode: "single",
  hosts: [{ host: "h", port: 6379 }],
  tls: false,
  username: null,
  password: null,
  database: 0,
  master: null,
  sentinelPassword: null,
  caFile: null,
};

test.each([
  ["redis://h", {}],
  ["REDIS://h:1", { hosts: [{ host: "h", port: 1 }] }],
  ["valkey://h/", {}],
  ["rediss://h/3", { tls: true, database: 3 }],
  ["valkeys://h?ca_file=/etc/ca.pem", { tls: true, caFile: "/etc/ca.pem" }],
  ["redis://:p%40ss%2F@h", { password: "p@ss/" }],
  ["redis://user:p:q@h", { username: "user", password: "p:q" }],
  ["redis://user@h", { username: "user" }],
  ["redis://[::1]:7000", { hosts: [{ host: "::1", port: 7000 }] }],
  [
    "redis+sentinel://:p@a,b:1/main/2?sentinel_password=q",
    {
      mode: "sentinel",
      password: "p",
      master: "main",
      database: 2,
      sentinelPassword: "q",
      hosts: [
        { host: "a", port: 26_379 },
        { host: "b", port: 1 },
      ],
    },
  ],
  [
    "rediss+cluster://a,b:1",
    {
      mode: "cluster",
      tls: true,
      hosts: [
        { host: "a", port: 6379 },
        { host: "b", port: 1 },
      ],
    },
  ],
])("%s is understood", (url, over) => {
  expect(parseKvUrl(url)).toEqual({ ...plain, ...over });
});

test.each([
  ["", /must begin with redis:/],
  ["localhost:6379", /must begin with redis:/],
  ["http://h", /must begin with redis:/],
  ["redis+other://h", /must begin with redis:/],
  ["redis://", /must name each host/],
  ["redis://:p@ssword@h", /write @ in a password as %40/],
  ["redis://h:0", /must name each host/],
  ["redis://h:65536", /must name each host/],
  ["redis+cluster://a,,b", /must name each host/],
  ["redis://a,b", /several hosts/],
  ["redis://h/name", /number of the database/],
  ["redis://h/1/2", /number of the database/],
  ["redis+cluster://h/1", /only number 0/],
  ["redis+sentinel://h", /must name the master/],
  ["redis://h?db=1", /unknown parameter db/],
  ["redis://:%zz@h", /percent-encoded/],
])("%s is refused with a sentence", (url, sentence) => {
  expect(parseKvUrl(url)).toMatch(sentence);
});

test("no refusal repeats credentials", () => {
  for (const url of [
    "http://user:hunter2@h",
    "redis://user:hunter2@a,b",
    "redis://user:hunter2@h/x",
    "redis://user:hunter2@h?x=1",
    "redis://user:hunter2%zz@h",
    "redis://user:hunter2@",
    "redis://user:hunter@hunter2@h",
  ]) {
    expect(parseKvUrl(url)).toEqual(expect.not.stringMatching(/hunter2|user/));
  }
});
