/** A system call as a seccomp filter sees it (`struct seccomp_data`). */
export type SystemCall = { architecture: number; number: number; args: readonly number[] };

/** Interprets a filter as the kernel does, for architectures that this machine is not. @throws Error: no instruction of ours */
export const judge = (filter: Buffer, { architecture, number, args }: SystemCall): "allowed" | "EPERM" => {
  const data = Buffer.alloc(64);
  data.writeUInt32LE(number >>> 0, 0);
  data.writeUInt32LE(architecture, 4);
  for (const [nth, argument] of args.entries()) data.writeBigInt64LE(BigInt(argument), 16 + 8 * nth);
  let accumulator = 0;
  for (let at = 0; ; at += 1) {
    const code = filter.readUInt16LE(at * 8);
    const [ifTrue, ifFalse] = [filter.readUInt8(at * 8 + 2), filter.readUInt8(at * 8 + 3)];
    const value = filter.readUInt32LE(at * 8 + 4);
    const jump = (isTrue: boolean): void => void (at += isTrue ? ifTrue : ifFalse);
    if (code === 0x20) accumulator = data.readUInt32LE(value);
    else if (code === 0x54) accumulator = (accumulator & value) >>> 0;
    else if (code === 0x15) jump(accumulator === value);
    else if (code === 0x35) jump(accumulator >= value);
    else if (code === 0x45) jump((accumulator & value) !== 0);
    else if (code === 0x06 && value === 0x7fff0000) return "allowed";
    else if (code === 0x06 && value === 0x00050001) return "EPERM";
    else throw new Error(`instruction ${at} is 0x${code.toString(16)} with 0x${value.toString(16)}`);
  }
};
