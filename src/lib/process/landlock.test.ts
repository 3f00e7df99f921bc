import { spawnSync } from "node:child_process";
import { mkdir, writeFile } from "node:fs/promises";
import { createServer, type AddressInfo } from "node:net";
import { once } from "node:events";
import { join } from "node:path";
import { expect, test } from "vitest";
import { afterFile } from "../../../test/cleanup.ts";
import { temporaryDirectory } from "../../../test/temporary.ts";
import { landlockPrefix, type Fence } from "./landlock.ts";

const system = ["/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache", "/proc"];

const run = ({ readable, ...fence }: Fence, script: string) => {
  const lock = landlockPrefix({ readable: [...system, ...readable], ...fence });
  const [command, ...args] = [...lock, "/bin/sh", "-c", script] as const;
  const env = { PATH: "/usr/bin:/bin" };
  return spawnSync(command, args, { encoding: "utf8", env });
};

test("what is writable can be written, what is readable read, and nothing else", async () => {
  const home = await temporaryDirectory();
  const [own, given, other] = ["own", "given", "other"].map((name) => join(home, name)) as [
    string,
    string,
    string,
  ];
  for (const path of [own, given, other]) {
    await mkdir(path);
    await writeFile(join(path, "f"), `${path} said\n`);
  }
  const { stdout, stderr } = run(
    { readable: [given, join(home, "missing")], writable: [own, "/dev/null"], ports: [] },
    `cat ${own}/f ${given}/f; cat ${other}/f; echo a > ${own}/g; echo b > ${given}/g; ls ${home}; mkdir ${own}/d && echo c > ${own}/d/e && echo made`,
  );
  expect(stdout).toContain(`${own} said`);
  expect(stdout).toContain(`${given} said`);
  expect(stdout).not.toContain(`${other} said`);
  expect(stdout).toContain("made");
  expect(stderr).toMatch(/other\/f: Permission denied/);
  expect(stderr).toMatch(/given\/g: Permission denied/);
});

test("it connects to the ports that it was given, and does not see or signal others", async () => {
  const servers = [createServer((socket) => socket.end("hello")), createServer()];
  const ports: number[] = [];
  for (const server of servers) {
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    ports.push((server.address() as AddressInfo).port);
    afterFile(async () => void server.close());
  }
  const [open, closed] = ports as [number, number];
  const ask = (port: number): string =>
    `perl -MIO::Socket::INET -e 'print IO::Socket::INET->new(PeerAddr => "127.0.0.1:${port}") ? "yes " : "no "'`;
  const { stdout, stderr } = run(
    { readable: [], writable: ["/dev/null"], ports: [open] },
    `${ask(open)}; ${ask(closed)}; cat /proc/${process.pid}/environ 2>/dev/null && echo seen; kill -0 ${process.pid} 2>/dev/null && echo signalled`,
  );
  expect(stdout + stderr).toBe("yes no ");
});

test("its exit code is the program's, and a program that is missing is said to be", () => {
  const none = { readable: [], writable: [], ports: [] };
  expect(run(none, "exit 7").status).toBe(7);
  const lock = landlockPrefix({ readable: system, writable: [], ports: [] });
  const [command, ...args] = [...lock, "/no/such"] as const;
  const missing = spawnSync(command, args, { encoding: "utf8" });
  expect(missing).toMatchObject({ status: 126, stderr: expect.stringContaining("landlock: /no/such") });
});

test.each([
  ["TCP", "2, 1, 0", true],
  ["TCP of IPv6, by name", "10, 1 | 0x80800, 6", true],
  ["the addresses of the machine (netlink)", "16, 3, 0", true],
  ["a Unix socket", "1, 1, 0", false],
  ["datagrams", "2, 2, 0", false],
  ["datagrams of IPv6", "10, 2, 17", false],
  ["MPTCP, which is a stream as well", "2, 1, 262", false],
  ["the host of a virtual machine (vsock)", "40, 1, 0", false],
  ["packets", "17, 3, 0", false],
])("a socket for %s: %s: %s", (_what, socket, isAllowed) => {
  const script = `perl -e 'exit(socket(my $s, ${socket}) ? 0 : $!{EPERM} ? 3 : 4)'`;
  const { status } = run({ readable: [], writable: ["/dev/null"], ports: [1] }, script);
  expect(status).toBe(isAllowed ? 0 : 3);
});

test.each([
  ["a pair of Unix sockets", "socketpair(my $a, my $b, 1, 1, 0)", true],
  ["a pair for datagrams, which reach others as well", "socketpair(my $a, my $b, 1, 2, 0)", false],
  ["io_uring, which can make sockets", 'syscall(425, 1, my $p = "\\0" x 200) >= 0', false],
])("%s: %s: %s", (_what, call, isAllowed) => {
  const script = `perl -e 'exit(${call} ? 0 : $!{EPERM} ? 3 : 4)'`;
  const { status } = run({ readable: [], writable: ["/dev/null"], ports: [1] }, script);
  expect(status).toBe(isAllowed ? 0 : 3);
});
