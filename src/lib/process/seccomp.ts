/** Kernel's names of the architectures (AUDIT_ARCH_*): x86-64; i386, which a 64-bit program can call as well; arm64; arm. */
const architectures = [0xc000003e, 0x40000003, 0xc00000b7, 0x40000028] as const;

/** Numbers of the calls that are judged, in the order of `architectures`. Null: there is no such call. */
export const callNumbers = {
  add_key: [248, 286, 217, 309],
  request_key: [249, 287, 218, 310],
  keyctl: [250, 288, 219, 311],
  // Both make sockets in other ways.
  io_uring_setup: [425, 425, 425, 425],
  socketcall: [null, 102, null, null],
  setsid: [112, 66, 157, 66],
  setpgid: [109, 57, 154, 57],
  socket: [41, 359, 198, 281],
  socketpair: [53, 360, 199, 288],
  send: [null, null, null, 289],
  sendto: [44, 369, 206, 290],
  sendmsg: [46, 370, 211, 296],
  sendmmsg: [307, 345, 269, 374],
  prlimit64: [302, 340, 261, 369],
  sched_setaffinity: [203, 241, 122, 241],
  sched_setscheduler: [144, 156, 119, 156],
  sched_setparam: [142, 154, 118, 154],
  sched_setattr: [314, 351, 274, 380],
  setpriority: [141, 97, 140, 97],
  ioprio_set: [251, 289, 30, 314],
} satisfies Record<string, (number | null)[]>;

export type CallName = keyof typeof callNumbers;

/** Calls of x32 have this bit. They are refused: nobody needs them, and each has a second number. */
const x32 = 0x40000000;

/** Instructions of classic BPF. A jump skips as many as it says. */
type Instruction = [code: number, ifTrue: number, ifFalse: number, value: number];
const [load, and, ifEqual, ifAtLeast, ifAnyOf, answer] = [0x20, 0x54, 0x15, 0x35, 0x45, 0x06];
const allowed: Instruction = [answer, 0, 0, 0x7fff0000];
const refused: Instruction = [answer, 0, 0, 0x00050001];

/** The lower half of an argument. The first one is 0. */
const loadArgument = (nth: number): Instruction => [load, 0, 0, 16 + 8 * nth];

/** Goes on where the loaded value is one of these, else behind what is `skipped`. */
const ifOneOf = (values: readonly number[], skipped: number): Instruction[] =>
  values.map((value, at) => {
    const rest = values.length - at - 1;
    return [ifEqual, rest, rest === 0 ? skipped : 0, value];
  });

/** Netlink tells a program its own addresses. Others have no namespace: with vsock one talks to the machine's own host. */
const [unix, ipv4, ipv6, netlink] = [1, 2, 10, 16];

/** Judges the arguments of `socket`: family, type, protocol. */
const judges = {
  /** All that bubblewrap confines. */
  usual: [loadArgument(0), ...ifOneOf([unix, ipv4, ipv6, netlink], 1), allowed, refused],
  /** For what needs no network: it also stays in its process group, which can be ended as a whole. */
  none: [refused],
  tcp: [
    loadArgument(0),
    // Netlink: allowed. IPv4, IPv6: streams only, and not of MPTCP or SCTP, which Landlock does not see.
    [ifEqual, 8, 0, netlink],
    [ifEqual, 1, 0, ipv4],
    [ifEqual, 0, 7, ipv6],
    loadArgument(1),
    [and, 0, 0, 0xf],
    [ifEqual, 0, 4, 1],
    loadArgument(2),
    [ifEqual, 1, 0, 0],
    [ifEqual, 0, 1, 6],
    allowed,
    refused,
  ],
} satisfies Record<string, Instruction[]>;

/** Pairs of sockets, but not for datagrams, which can be sent to others as well. */
const pair: Instruction[] = [loadArgument(1), [and, 0, 0, 0xf], [ifEqual, 1, 0, 2], allowed, refused];

/** MSG_FASTOPEN connects, and Landlock looks at `connect` only. */
const withoutFastOpen = (flags: number): Instruction[] => [
  loadArgument(flags),
  [ifAnyOf, 1, 0, 0x20000000],
  allowed,
  refused,
];

/** The argument is 0, by which a call means the caller: a filter does not know its number. */
const isZero = (nth: number): Instruction[] => [loadArgument(nth), ...ifOneOf([0], 1), allowed, refused];

/** The same of the second one. The first one says that it is a process, and no group or user. */
const isOwnProcess = (process: number): Instruction[] => [
  loadArgument(0),
  ...ifOneOf([process], 3),
  ...isZero(1),
];

type Rule = readonly [calls: readonly CallName[], judge: readonly Instruction[]];

/** Beside Landlock, which holds none of these. Other processes of the user are in sight there. */
const besideLandlock: readonly Rule[] = [
  [["socketpair"], pair],
  [["send", "sendto", "sendmmsg"], withoutFastOpen(3)],
  [["sendmsg"], withoutFastOpen(2)],
  [["prlimit64", "sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr"], isZero(0)],
  [["setpriority"], isOwnProcess(0)],
  [["ioprio_set"], isOwnProcess(1)],
];

const always: readonly CallName[] = ["add_key", "request_key", "keyctl", "io_uring_setup", "socketcall"];

/** The judge, for these calls alone. It ends with an answer, and is skipped by all others. */
const when = ([calls, judge]: Rule, architecture: number): Instruction[] => {
  const numbers = calls
    .map((name) => callNumbers[name][architecture])
    .filter((each) => typeof each === "number");
  return numbers.length === 0 ? [] : [...ifOneOf(numbers, judge.length), ...judge];
};

/**
 * A seccomp filter (`struct sock_filter[]`). It refuses with EPERM, as what is another user's is refused: the kernel's keyrings
 * (a session keyring is inherited, and the service's may hold keys); sockets but those that `sockets` leaves; and, where these
 * are not the usual ones, what Landlock does not hold. Calls of an architecture that is not in the list are refused as a whole.
 */
export const systemCallFilter = ({ sockets }: { sockets: keyof typeof judges }): Buffer => {
  const rules: Rule[] = [
    [sockets === "none" ? [...always, "setsid", "setpgid"] : always, [refused]],
    [["socket"], judges[sockets]],
    ...(sockets === "usual" ? [] : besideLandlock),
  ];
  const program = architectures.flatMap((id, architecture): Instruction[] => {
    const judged = rules.flatMap((rule) => when(rule, architecture));
    const block: Instruction[] = [[load, 0, 0, 0], [ifAtLeast, 0, 1, x32], refused, ...judged, allowed];
    return [[load, 0, 0, 4], [ifEqual, 0, block.length, id], ...block];
  });
  program.push(refused);
  const bytes = Buffer.alloc(program.length * 8);
  for (const [at, [code, ifTrue, ifFalse, value]] of program.entries()) {
    bytes.writeUInt16LE(code, at * 8);
    bytes.writeUInt8(ifTrue, at * 8 + 2);
    bytes.writeUInt8(ifFalse, at * 8 + 3);
    bytes.writeUInt32LE(value, at * 8 + 4);
  }
  return bytes;
};
