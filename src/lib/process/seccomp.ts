type Architecture = {
  /** The kernel's name of it (AUDIT_ARCH_*). */
  id: number;
  /** Numbers of add_key, request_key and keyctl. */
  keys: readonly number[];
  socket: number;
  /** Numbers of setsid and setpgid. */
  group: readonly number[];
  /** Of socketpair. */
  pair: number;
  /** Of calls that make sockets in other ways: io_uring_setup, socketcall. */
  more: readonly number[];
};

/** x86-64; i386, which a 64-bit program can call as well; arm64; arm. */
const architectures: readonly Architecture[] = [
  { id: 0xc000003e, keys: [248, 249, 250], socket: 41, group: [112, 109], pair: 53, more: [425] },
  { id: 0x40000003, keys: [286, 287, 288], socket: 359, group: [66, 57], pair: 360, more: [425, 102] },
  { id: 0xc00000b7, keys: [217, 218, 219], socket: 198, group: [157, 154], pair: 199, more: [425] },
  { id: 0x40000028, keys: [309, 310, 311], socket: 281, group: [66, 57], pair: 288, more: [425] },
];

/** Calls of x32 have this bit. They are refused: nobody needs them, and each has a second number. */
const x32 = 0x40000000;

/** Instructions of classic BPF. A jump skips as many as it says. */
type Instruction = [code: number, ifTrue: number, ifFalse: number, value: number];
const [load, and, ifEqual, ifAtLeast, answer] = [0x20, 0x54, 0x15, 0x35, 0x06];
const allowed: Instruction = [answer, 0, 0, 0x7fff0000];
const refused: Instruction = [answer, 0, 0, 0x00050001];

/** Netlink tells a program its own addresses. Others have no namespace: with vsock one talks to the machine's own host. */
const [unix, ipv4, ipv6, netlink] = [1, 2, 10, 16];

const only = (...families: number[]): Instruction[] => [
  [load, 0, 0, 16],
  ...families.map((family, at): Instruction => {
    const rest = families.length - at - 1;
    return [ifEqual, rest, rest === 0 ? 1 : 0, family];
  }),
  allowed,
  refused,
];

/** What follows a call of socket. Its arguments are at 16, 24 and 32: family, type, protocol. */
const judges = {
  /** All that bubblewrap confines. */
  usual: only(unix, ipv4, ipv6, netlink),
  /** Not Unix: Landlock does not hold them. */
  internet: only(ipv4, ipv6, netlink),
  /** For what needs no network: it also stays in its process group, which can be ended as a whole. */
  none: [refused],
  tcp: [
    [load, 0, 0, 16],
    // Netlink: allowed. IPv4, IPv6: streams only, and not of MPTCP or SCTP, which Landlock does not see.
    [ifEqual, 8, 0, netlink],
    [ifEqual, 1, 0, ipv4],
    [ifEqual, 0, 7, ipv6],
    [load, 0, 0, 24],
    [and, 0, 0, 0xf],
    [ifEqual, 0, 4, 1],
    [load, 0, 0, 32],
    [ifEqual, 1, 0, 0],
    [ifEqual, 0, 1, 6],
    allowed,
    refused,
  ],
} satisfies Record<string, Instruction[]>;

/**
 * A seccomp filter (`struct sock_filter[]`). It refuses the kernel's keyrings with EPERM: a session keyring is inherited, and
 * the service's may hold keys. `sockets`: which ones it leaves. Where these are not Unix ones it leaves pairs of them, but not
 * for datagrams, which can be sent to others as well. Calls of an architecture that is not in the list are refused as a whole.
 */
export const systemCallFilter = ({ sockets }: { sockets: keyof typeof judges }): Buffer => {
  const program: Instruction[] = [];
  for (const { id, keys, socket, group, pair, more } of architectures) {
    const judge: readonly Instruction[] = judges[sockets];
    const judgePair: Instruction[] = [
      [ifEqual, 0, 3, pair],
      [load, 0, 0, 24],
      [and, 0, 0, 0xf],
      [ifEqual, judge.length, 0, 2],
    ];
    const others = [...(sockets === "usual" ? [] : judgePair), allowed];
    const rest: Instruction[] = [[ifEqual, others.length, 0, socket], ...others, ...judge];
    const tests = [
      [ifAtLeast, x32],
      ...[...keys, ...more, ...(sockets === "none" ? group : [])].map((call) => [ifEqual, call]),
    ] as [number, number][];
    // The refusal is the last of the block.
    const jumps = tests.map(([code, value], at): Instruction => [
      code,
      tests.length + rest.length - at - 2,
      0,
      value,
    ]);
    const block: Instruction[] = [[load, 0, 0, 0], ...jumps, ...rest];
    program.push([load, 0, 0, 4], [ifEqual, 0, block.length, id], ...block);
  }
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
