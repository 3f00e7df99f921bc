import { describe, expect, test } from "vitest";
import { judge } from "./bpf.fixture.ts";
import { systemCallFilter } from "./seccomp.ts";

/** Numbers as the kernel's own tables have them. */
const machines = {
  "x86-64": {
    architecture: 0xc000003e,
    calls: {
      read: 0,
      socket: 41,
      socketpair: 53,
      sendto: 44,
      sendmsg: 46,
      sendmmsg: 307,
      prlimit64: 302,
      sched_setaffinity: 203,
      sched_setscheduler: 144,
      sched_setparam: 142,
      sched_setattr: 314,
      setpriority: 141,
      ioprio_set: 251,
      setsid: 112,
      keyctl: 250,
    },
  },
  i386: {
    architecture: 0x40000003,
    calls: {
      read: 3,
      socket: 359,
      socketpair: 360,
      sendto: 369,
      sendmsg: 370,
      sendmmsg: 345,
      prlimit64: 340,
      sched_setaffinity: 241,
      sched_setscheduler: 156,
      sched_setparam: 154,
      sched_setattr: 351,
      setpriority: 97,
      ioprio_set: 289,
      setsid: 66,
      keyctl: 288,
      socketcall: 102,
    },
  },
  arm64: {
    architecture: 0xc00000b7,
    calls: {
      read: 63,
      socket: 198,
      socketpair: 199,
      sendto: 206,
      sendmsg: 211,
      sendmmsg: 269,
      prlimit64: 261,
      sched_setaffinity: 122,
      sched_setscheduler: 119,
      sched_setparam: 118,
      sched_setattr: 274,
      setpriority: 140,
      ioprio_set: 30,
      setsid: 157,
      keyctl: 219,
    },
  },
  arm: {
    architecture: 0x40000028,
    calls: {
      read: 3,
      socket: 281,
      socketpair: 288,
      send: 289,
      sendto: 290,
      sendmsg: 296,
      sendmmsg: 374,
      prlimit64: 369,
      sched_setaffinity: 241,
      sched_setscheduler: 156,
      sched_setparam: 154,
      sched_setattr: 380,
      setpriority: 97,
      ioprio_set: 314,
      setsid: 66,
      keyctl: 311,
    },
  },
} satisfies Record<string, { architecture: number; calls: Record<string, number> }>;

const fastOpen = 0x20000000;
const [dontWait, noSignal] = [0x40, 0x4000];

/** Call, arguments, and whether it passes where Landlock is the sandbox. */
const rows: readonly [call: string, args: number[], passes: boolean][] = [
  ["read", [0, fastOpen, fastOpen, fastOpen], true],
  ["send", [3, 0, 1, noSignal], true],
  ["send", [3, 0, 1, fastOpen], false],
  ["sendto", [3, 0, 1, noSignal], true],
  ["sendto", [3, 0, 1, fastOpen], false],
  ["sendto", [3, 0, 1, fastOpen | dontWait | noSignal], false],
  ["sendto", [fastOpen, fastOpen, fastOpen, 0, fastOpen], true],
  ["sendmsg", [3, 0, noSignal], true],
  ["sendmsg", [3, 0, fastOpen | noSignal], false],
  ["sendmsg", [3, 0, 0, fastOpen], true],
  ["sendmmsg", [3, 0, 1, 0], true],
  ["sendmmsg", [3, 0, 1, fastOpen], false],
  ["sendmmsg", [3, 0, fastOpen, 0], true],
  ...["prlimit64", "sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr"].flatMap(
    (call): [string, number[], boolean][] => [
      [call, [0, 7, 1], true],
      [call, [1, 0, 0], false],
      [call, [-1, 0, 0], false],
    ],
  ),
  ["setpriority", [0, 0, 5], true],
  ["setpriority", [0, 4711, 5], false],
  // A group, and all processes of the user.
  ["setpriority", [1, 0, 5], false],
  ["setpriority", [2, 0, 5], false],
  ["ioprio_set", [1, 0, 5], true],
  ["ioprio_set", [1, 4711, 5], false],
  ["ioprio_set", [2, 0, 5], false],
  ["ioprio_set", [3, 0, 5], false],
  ["socketpair", [1, 1, 0], true],
  ["socketpair", [1, 2, 0], false],
  ["keyctl", [0], false],
  ["socketcall", [1], false],
];

describe.each(Object.entries(machines))("%s", (_name, { architecture, calls }) => {
  const numberOf = (call: string): number | undefined => (calls as Record<string, number>)[call];
  const ask = (sockets: Parameters<typeof systemCallFilter>[0]["sockets"], number: number, args: number[]) =>
    judge(systemCallFilter({ sockets }), { architecture, number, args });

  test.each(rows.filter(([call]) => numberOf(call) !== undefined))(
    "beside Landlock %s%j passes: %s",
    (call, args, passes) => {
      const kinds = ["tcp", "none"] as const;
      const answers = kinds.map((sockets) => ask(sockets, numberOf(call) ?? -1, args));
      expect(answers).toEqual(kinds.map(() => (passes ? "allowed" : "EPERM")));
    },
  );

  test("in bubblewrap other processes are out of sight, and its own are its to limit", () => {
    for (const call of ["sendto", "prlimit64", "setpriority", "ioprio_set", "socketpair"])
      expect(ask("usual", numberOf(call) ?? -1, [4711, 4711, 1, fastOpen])).toBe("allowed");
    expect(ask("usual", numberOf("keyctl") ?? -1, [])).toBe("EPERM");
  });

  test("sockets are those of the kind, and only what has none stays in its process group", () => {
    const socket = (sockets: "usual" | "tcp" | "none", ...args: number[]) =>
      ask(sockets, numberOf("socket") ?? -1, args);
    const [unix, stream, datagram, ipv4, netlink, vsock] = [1, 1, 2, 2, 16, 40];
    expect(socket("usual", unix, stream, 0)).toBe("allowed");
    expect(socket("tcp", ipv4, datagram, 0)).toBe("EPERM");
    expect(socket("tcp", ipv4, stream | 0x80800, 6)).toBe("allowed");
    expect(socket("tcp", netlink, 3, 0)).toBe("allowed");
    for (const sockets of ["usual", "tcp", "none"] as const)
      expect(socket(sockets, vsock, stream, 0)).toBe("EPERM");
    expect(socket("none", netlink, 3, 0)).toBe("EPERM");
    expect(ask("tcp", numberOf("setsid") ?? -1, [])).toBe("allowed");
    expect(ask("none", numberOf("setsid") ?? -1, [])).toBe("EPERM");
  });

  test("calls of x32, and of another architecture, are refused as a whole", () => {
    expect(ask("tcp", 0x40000000, [])).toBe("EPERM");
    const call = { architecture: 0xc00000f3, number: calls.read, args: [] };
    expect(judge(systemCallFilter({ sockets: "tcp" }), call)).toBe("EPERM");
  });
});
