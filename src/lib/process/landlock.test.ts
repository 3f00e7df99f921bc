import { spawnSync } from "node:child_process";
import { mkdir, writeFile } from "node:fs/promises";
import { createServer, type AddressInfo } from "node:net";
import { once } from "node:events";
import { join } from "node:path";
import { expect, test } from "vitest";
import { afterFile } from "../../../test/cleanup.ts";
import { temporaryDirectory } from "../../../test/temporary.ts";
import { landlockPrefix, landlockTrial, type Fence } from "./landlock.ts";
import { type CallName, callNumbers, systemCallFilter } from "./seccomp.ts";

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

/** Of the tests' own user, and where that is root, of another as well. */
const users: readonly (readonly string[])[] = [
  [],
  ...(process.getuid?.() === 0 ? ["setpriv --reuid 20001 --regid 20001 --clear-groups".split(" ")] : []),
];

const startAs = (user: readonly string[], [command, ...args]: readonly string[], ...more: string[]) =>
  spawnSync(
    user[0] ?? command ?? "",
    [...user.slice(1), ...(user.length > 0 ? [command ?? ""] : []), ...args, ...more],
    {
      encoding: "utf8",
      env: { PATH: "/usr/bin:/bin" },
    },
  );

const number = (name: CallName): number => callNumbers[name][process.arch === "arm64" ? 2 : 0] ?? -1;

/** Arguments, and the error of the call: 1 is EPERM, 0 is none. `$o` is the parent, `$s` a new stream, `$a` port 1 of loopback. */
const calls: readonly [what: string, call: CallName, args: string, error: number][] = [
  ["fast open", "sendto", "fileno $s, $x, 1, 0x20000000, $a, length $a", 1],
  ["fast open that does not wait", "sendto", "fileno $s, $x, 1, 0x20004040, $a, length $a", 1],
  ["fast open by a message", "sendmsg", "fileno $s, $m, 0x20000000", 1],
  ["fast open by messages", "sendmmsg", "fileno $s, $m, 1, 0x20000000", 1],
  ["the limits of another process", "prlimit64", "$o, 7, 0, 0", 1],
  ["its own limits", "prlimit64", "0, 7, 0, 0", 0],
  ["its own limits by its number", "prlimit64", "$$, 7, 0, 0", 1],
  ["the processors of another process", "sched_setaffinity", "$o, 8, $x x 8", 1],
  ["its own processors", "sched_setaffinity", '0, 8, my $all = "\\xff" x 8', 0],
  ["the scheduler of another process", "sched_setscheduler", '$o, 3, my $p = "\\0" x 4', 1],
  ["its own scheduler", "sched_setscheduler", '0, 3, my $p = "\\0" x 4', 0],
  ["the parameters of another process", "sched_setparam", '$o, my $p = "\\0" x 4', 1],
  [
    "the attributes of another process",
    "sched_setattr",
    '$o, my $p = pack("LLQlLQQQ", 48, 3, 0, getpriority(0, 0), 0, 0, 0, 0), 0',
    1,
  ],
  [
    "its own attributes",
    "sched_setattr",
    '0, my $p = pack("LLQlLQQQ", 48, 3, 0, getpriority(0, 0), 0, 0, 0, 0), 0',
    0,
  ],
  ["the priority of another process", "setpriority", "0, $o, 19", 1],
  ["the priority of its group", "setpriority", "1, 0, 19", 1],
  ["the priority of the user", "setpriority", "2, 0, 19", 1],
  ["its own priority", "setpriority", "0, 0, 19", 0],
  ["the disk's priority of another process", "ioprio_set", "1, $o, 3 << 13", 1],
  ["the disk's priority of the user", "ioprio_set", "3, $<, 3 << 13", 1],
  ["its own priority at the disk", "ioprio_set", "1, 0, 3 << 13", 0],
];

const preamble = `use Socket; my ($o, $x, $a) = (getppid, "x", pack_sockaddr_in(1, INADDR_LOOPBACK)); socket my $s, 2, 1, 0 or die;
  my $i = pack "PQ", $x, 1; my $m = pack "PLx4PQQQLx4Q", $a, length $a, $i, 1, 0, 0, 0, 0;`;

test.each(calls)("%s (%s): really called, its error is as here", (_what, call, args, error) => {
  const fence = landlockPrefix({ readable: system, writable: ["/dev/null"], ports: [2] });
  const script = `${preamble} $! = 0; syscall(${number(call)}, ${args}); print $! + 0`;
  for (const user of users) expect(startAs(user, fence, "perl", "-e", script).stdout).toBe(String(error));
});

test("a connection that fast open only puts off is looked at when it is asked for", async () => {
  const server = createServer((socket) => socket.end("reached")).listen(0, "127.0.0.1");
  await once(server, "listening");
  afterFile(async () => void server.close());
  const { port } = server.address() as AddressInfo;
  // TCP_FASTOPEN_CONNECT, then a connection to a port that is open and words for one that is not.
  const script = `use Socket; $| = 1; $SIG{PIPE} = "IGNORE"; socket my $s, 2, 1, 0; setsockopt $s, 6, 30, 1 or die; my $to = sub { pack_sockaddr_in $_[0], INADDR_LOOPBACK };
    print connect($s, $to->(${port})) ? "connected" : "refused"; connect $s, $to->(1); send $s, "x", 0, $to->(${port}); print " ", recv($s, my $r, 99, 0) && $r`;
  const { stdout } = run({ readable: [], writable: ["/dev/null"], ports: [1] }, `perl -e '${script}'`);
  expect(stdout.trim()).toBe("refused");
});

test("the trial of a run finds nothing open, and each thing that the filter leaves", () => {
  const fence = landlockPrefix({ readable: system, writable: ["/dev/null"], ports: [2] });
  const allowAll = Buffer.from([6, 0, 0, 0, 0, 0, 0xff, 0x7f]).toString("hex");
  const own = systemCallFilter({ sockets: "tcp" }).toString("hex");
  const open = fence.map((part) => (part === own ? allowAll : part));
  for (const user of users) {
    expect(startAs(user, fence, ...landlockTrial())).toMatchObject({ status: 0, stdout: "", stderr: "" });
    const { stdout } = startAs([], [...user, ...open, "sh", "-c", '"$@"; :', "sh"], ...landlockTrial());
    const named = [...stdout.matchAll(/\((\w+)\)$/gm)].map(([, call]) => call);
    const all =
      "sendto sendmsg sendmmsg prlimit64 sched_setaffinity sched_setscheduler sched_setparam sched_setattr setpriority ioprio_set";
    expect(named).toEqual(all.split(" "));
  }
});
