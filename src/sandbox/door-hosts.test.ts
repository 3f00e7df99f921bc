import { createServer } from "node:http";
import { expect, test } from "vitest";
import { parseHosts } from "../lib/allowed-hosts.ts";
import { ask, listen, open, sendRaw } from "./door.fixture.ts";

test.each([
  ["10.1.2.3:443", "leads to a private network: the profile or the operator must name the host"],
  ["127.0.0.1:80", "no agent may reach"],
  ["169.254.169.254:80", "no agent may reach"],
  ["[fd12::4]:443", "leads to a private network"],
  ["rebound.example.com:443", "leads to a private network"],
  ["example.com:22", "is not in the list"],
])("`*` does not lead to %s", async (target, why) => {
  const { door, denied } = await open({ hosts: parseHosts(["*"]), resolve: async () => ["192.168.1.9"] });
  const answer = await sendRaw(door.socket, `CONNECT ${target} HTTP/1.1\r\nhost: a\r\n\r\n`);
  expect(answer).toMatch(/^HTTP\/1\.1 403 /);
  expect(answer).toContain(why);
  expect(denied).toEqual([target]);
});

test("with `*` a private host is reached that is named, too", async () => {
  const port = await listen(createServer((_asked, answer) => answer.end("named")));
  const hosts = [...parseHosts(["*"]), ...parseHosts([`db.internal:${port}`], true)];
  const { door } = await open({ hosts, resolve: async () => ["127.0.0.1"] });
  expect((await ask(door.socket, `http://db.internal:${port}/`)).text).toBe("named");
});

test("a host that is not in the list is refused at once, and told", async () => {
  const { door, denied } = await open({ hosts: parseHosts(["registry.example.com"]) });
  expect(await sendRaw(door.socket, "CONNECT evil.example.com:443 HTTP/1.1\r\nhost: a\r\n\r\n")).toMatch(
    /^HTTP\/1\.1 403 .*evil\.example\.com:443 is not in the list/s,
  );
  expect(await ask(door.socket, "http://evil.example.com/x")).toMatchObject({ status: 403 });
  expect(await sendRaw(door.socket, "CONNECT registry.example.com:22 HTTP/1.1\r\nhost: a\r\n\r\n")).toMatch(
    / 403 /,
  );
  expect(denied).toEqual(["evil.example.com:443", "evil.example.com:80", "registry.example.com:22"]);
});

test.each([
  ["127.0.0.1:443", "127.0.0.1"],
  ["[::1]:443", "::1"],
  ["[::ffff:127.0.0.1]:443", "::ffff:127.0.0.1"],
  ["169.254.169.254:80", "169.254.169.254"],
])("%s is refused although the profile lists it", async (target) => {
  const { door, denied } = await open({ hosts: parseHosts([target]) });
  expect(await sendRaw(door.socket, `CONNECT ${target} HTTP/1.1\r\nhost: a\r\n\r\n`)).toMatch(
    / 403 .*no agent may reach/s,
  );
  expect(denied).toEqual([target]);
});

test("a name that leads to this host is refused, one that leads elsewhere later gains nothing", async () => {
  const answers = [["127.0.0.1"], ["64:ff9b::7f00:1"], ["fe80::1", "169.254.1.1"]];
  const { door, denied } = await open({
    hosts: parseHosts(["rebound.example.com"]),
    resolve: async () => answers.shift() ?? [],
  });
  const asked = "CONNECT rebound.example.com:443 HTTP/1.1\r\nhost: a\r\n\r\n";
  for (let n = 0; n < 3; n += 1) expect(await sendRaw(door.socket, asked)).toMatch(/ 403 /);
  expect(denied).toHaveLength(3);
  expect(await sendRaw(door.socket, asked)).toMatch(/ 502 .*cannot be resolved/s);
});

test("what the operator names with its port may be on this host: by CONNECT and by http", async () => {
  const port = await listen(
    createServer((asked, answer) => answer.end(`${asked.headers.host} ${asked.url}`)),
  );
  const { door, denied } = await open({
    hosts: parseHosts([`127.0.0.1:${port}`, `db.internal:${port}`], true),
    resolve: async () => ["127.0.0.1"],
  });
  expect(await ask(door.socket, `http://127.0.0.1:${port}/a?b`)).toMatchObject({
    status: 200,
    text: `127.0.0.1:${port} /a?b`,
  });
  expect(await ask(door.socket, `http://db.internal:${port}/`)).toMatchObject({
    text: `db.internal:${port} /`,
  });
  const answer = await sendRaw(
    door.socket,
    `CONNECT db.internal:${port} HTTP/1.1\r\nhost: a\r\n\r\nGET /t HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n`,
  );
  expect(answer).toMatch(/^HTTP\/1\.1 200 Connection established\r\n\r\nHTTP\/1\.1 200 .*h \/t/s);
  expect(denied).toEqual([]);
});
