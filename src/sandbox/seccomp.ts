import { endianness } from "node:os";

/** Numbers of add_key, request_key and keyctl, by the kernel's name of the architecture (AUDIT_ARCH_*). */
const keyCalls: readonly [architecture: number, calls: readonly number[]][] = [
  // x86-64, and x32, whose calls have bit 30 set.
  [0xc000003e, [248, 249, 250, 0x40000000 + 248, 0x40000000 + 249, 0x40000000 + 250]],
  // i386, which a 64-bit program can call as well.
  [0x40000003, [286, 287, 288]],
  // arm64, arm.
  [0xc00000b7, [217, 218, 219]],
  [0x40000028, [309, 310, 311]],
];

const [load, jumpIfEqual, answer] = [0x20, 0x15, 0x06];
const [allow, refuse] = [0x7fff0000, 0x00050001];

/**
 * A seccomp filter (classic BPF, `struct sock_filter[]`) that refuses the kernel's keyrings with EPERM: a session keyring is
 * inherited, and the service's may hold keys. Calls of an architecture that is not in the list are refused as a whole.
 */
export const keyringFilter = (): Buffer => {
  const program: [code: number, ifTrue: number, ifFalse: number, value: number][] = [];
  for (const [architecture, calls] of keyCalls) {
    program.push([load, 0, 0, 4], [jumpIfEqual, 0, calls.length + 3, architecture], [load, 0, 0, 0]);
    // Each jumps to the refusal, which follows the answer "allowed".
    for (const [at, call] of calls.entries()) program.push([jumpIfEqual, calls.length - at, 0, call]);
    program.push([answer, 0, 0, allow], [answer, 0, 0, refuse]);
  }
  program.push([answer, 0, 0, refuse]);
  const isLittle = endianness() === "LE";
  const bytes = Buffer.alloc(program.length * 8);
  for (const [at, [code, ifTrue, ifFalse, value]] of program.entries()) {
    if (isLittle) bytes.writeUInt16LE(code, at * 8);
    else bytes.writeUInt16BE(code, at * 8);
    bytes.writeUInt8(ifTrue, at * 8 + 2);
    bytes.writeUInt8(ifFalse, at * 8 + 3);
    if (isLittle) bytes.writeUInt32LE(value, at * 8 + 4);
    else bytes.writeUInt32BE(value, at * 8 + 4);
  }
  return bytes;
};
